package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	"aliquot/internal/rpc"
)

// maxOpsAnswer is how many bytes of a page of the ops listener are read at most.
const maxOpsAnswer = 1 << 20

// hotKeys is the page /hotkeys.
type hotKeys struct {
	Region string   `json:"region"`
	Keys   []hotKey `json:"keys"`
}

type hotKey struct {
	Rule   string  `json:"rule"`
	Key    string  `json:"key_hash"`
	Checks float64 `json:"checks_per_second"`
	Denied float64 `json:"denied_per_second"`
	Values string  `json:"values"`
}

// heldBack is the page /held.
type heldBack struct {
	Region  string       `json:"region"`
	Held    int          `json:"held"`
	Clients []heldClient `json:"clients"`
}

type heldClient struct {
	Rule  string    `json:"rule"`
	Key   string    `json:"key_hash"`
	State string    `json:"state"`
	Until time.Time `json:"until"`
}

// jsonForm returns the page as --output json prints it, in the style of the RPCs' messages.
func (p *hotKeys) jsonForm() any {
	type key struct {
		Rule    string  `json:"ruleId"`
		KeyHash string  `json:"keyHash"`
		Checks  float64 `json:"checksPerSecond"`
		Denied  float64 `json:"deniedPerSecond"`
		Values  string  `json:"values,omitempty"`
	}
	keys := make([]key, len(p.Keys))
	for i, k := range p.Keys {
		keys[i] = key{k.Rule, k.Key, k.Checks, k.Denied, k.Values}
	}
	return map[string]any{"region": p.Region, "keys": keys}
}

// jsonForm returns the page as --output json prints it, in the style of the RPCs' messages.
func (p *heldBack) jsonForm() any {
	type client struct {
		Rule    string    `json:"ruleId"`
		KeyHash string    `json:"keyHash"`
		State   string    `json:"state"`
		Until   time.Time `json:"until"`
	}
	clients := make([]client, len(p.Clients))
	for i, c := range p.Clients {
		clients[i] = client{c.Rule, c.Key, c.State, c.Until}
	}
	return map[string]any{"region": p.Region, "held": p.Held, "clients": clients}
}

func newHotKeys(g *console.Globals) *cobra.Command {
	n, held, values := 20, false, false
	cmd := &cobra.Command{
		Use:     "hotkeys",
		Example: "  aliquot hotkeys --number 5\n  aliquot hotkeys --held --addr us-east:7503",
		Short:   "List the busiest keys of a region, or the clients that it holds back",
		Long: "Lists the busiest keys of a region by their hashes; 'aliquot explain' shows the hash of a client. With --held\n" +
			"it lists the clients that cool_down or auto_block of a rule holds back. --addr is a regional daemon's ops listener (" + console.DefaultOps + ").",
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many keys")
	cmd.Flags().BoolVar(&values, "values", false, "also the clients of the keys, from a daemon with --remember-keys")
	cmd.Flags().BoolVar(&held, "held", false, "list the clients that are held back instead")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if held {
			var page heldBack
			if err := opsPage(g, cmd, "/held", &page); err != nil {
				return err
			}
			return g.PrintValue(page.jsonForm(), func(w io.Writer) { printHeld(w, &page) })
		}
		var page hotKeys
		path := "/hotkeys?n=" + strconv.Itoa(n)
		if values {
			path += "&values=true"
		}
		if err := opsPage(g, cmd, path, &page); err != nil {
			return err
		}
		return g.PrintValue(page.jsonForm(), func(w io.Writer) { printHotKeys(w, &page) })
	}
	return cmd
}

// opsPage reads a page of an ops listener.
func opsPage(g *console.Globals, cmd *cobra.Command, path string, into any) error {
	address := g.Ops()
	ctx, cancel := g.Call(cmd)
	defer cancel()
	if err := getJSON(ctx, rpc.BaseURL(address)+path, into); err != nil {
		return g.Explain(err, "the ops listener of a regional daemon", address)
	}
	return nil
}

func getJSON(ctx context.Context, url string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := rpc.NewHTTPClient().Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxOpsAnswer))
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusBadRequest:
		return errors.New(strings.TrimSpace(string(body)))
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d; is this an ops listener?", resp.StatusCode)
	}
	return json.Unmarshal(body, into)
}

func printHotKeys(w io.Writer, page *hotKeys) {
	rows := [][]string{{"RULE", "KEY", "CHECKS/S", "DENIED/S", "VALUES"}}
	for _, k := range page.Keys {
		rows = append(rows, []string{console.OrDash(k.Rule), k.Key, console.Figure(k.Checks), console.Figure(k.Denied), console.OrDash(k.Values)})
	}
	console.Columns(w, rows)
}

func printHeld(w io.Writer, page *heldBack) {
	rows := [][]string{{"RULE", "KEY", "STATE", "UNTIL"}}
	for _, c := range page.Clients {
		rows = append(rows, []string{console.OrDash(c.Rule), c.Key, c.State, c.Until.Format(time.RFC3339)})
	}
	console.Columns(w, rows)
	if more := page.Held - len(page.Clients); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}
