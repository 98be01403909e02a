// Command counted measures how much of a counting limit a client gets at once in one of three regions. For each key it
// sends as many requests as the limit allows, one after the other. Coordinators and regions run in this process, as
// aliquot dev runs them. Run it at the top of the module.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"aliquot/client"
	"aliquot/internal/dev"
	"aliquot/internal/e2e"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

func main() {
	var m measurement
	flag.DurationVar(&m.rtt, "rtt", 0, "round-trip time between regions and coordinators")
	flag.IntVar(&m.keys, "keys", 10, "how many keys of each limit, one after the other, each in another region")
	flag.IntVar(&m.offset, "port-offset", 2000, "added to every port")
	flag.Parse()
	e2e.Exit(func(ctx context.Context) (bool, error) { return true, m.run(ctx) })
}

// limits are the limits that are measured: requests in a window.
var limits = []struct {
	requests int
	window   string
}{{1, "1m"}, {2, "1m"}, {5, "1m"}, {10, "1m"}, {20, "1m"}, {100, "1d"}, {1000, "1m"}}

var algorithms = []string{"fixed_window", "sliding_window_counter", "sliding_window_log"}

const regions = 3

type measurement struct {
	rtt    time.Duration
	keys   int
	offset int
}

func (m *measurement) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "aliquot-counted-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := dev.DefaultConfig()
	c.RTT, c.PortOffset, c.RulesFile, c.Logger = m.rtt, m.offset, filepath.Join(dir, "rules.yaml"), slog.New(slog.DiscardHandler)
	if err := os.WriteFile(c.RulesFile, []byte(rulesText()), 0o600); err != nil {
		return err
	}
	out := &readyWriter{ready: make(chan struct{})}
	c.Out = out
	ended := make(chan error, 1)
	go func() { ended <- dev.Run(ctx, c) }()
	select {
	case err := <-ended:
		return err
	case <-out.ready:
	}
	err = m.table(ctx)
	cancel()
	return errors.Join(err, <-ended)
}

// readyWriter closes ready when the line "ready" is written to it.
type readyWriter struct {
	ready  chan struct{}
	closed bool
}

func (r *readyWriter) Write(p []byte) (int, error) {
	if !r.closed && strings.Contains(string(p), "ready") {
		r.closed = true
		close(r.ready)
	}
	return len(p), nil
}

// rulesText returns a rules file with a rule for each algorithm and limit.
func rulesText() string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for _, algorithm := range algorithms {
		for _, l := range limits {
			fmt.Fprintf(&b, "  - {id: %s, match: {attributes: {plan: %[1]s}}, algorithm: %s, params: {limit: %d, window: %s}}\n",
				rule(algorithm, l.requests), algorithm, l.requests, l.window)
		}
	}
	return b.String()
}

// rule returns the id of the rule of an algorithm and a limit, which is also the plan of its clients.
func rule(algorithm string, requests int) string { return fmt.Sprintf("%s-%d", algorithm, requests) }

// table prints a row for each algorithm and limit.
func (m *measurement) table(ctx context.Context) error {
	var clients []*client.Client
	for i := range regions {
		c, err := client.New(client.Options{Address: fmt.Sprintf("127.0.0.1:%d", 7500+10*i+m.offset), Timeout: 2 * time.Second})
		if err != nil {
			return err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintf(w, "algorithm\tlimit\tfirst request admitted\tat once, of the limit\tslowest check, p50 of keys\tworst\n")
	for _, algorithm := range algorithms {
		for _, l := range limits {
			if err := m.row(ctx, w, clients, algorithm, l.requests, l.window); err != nil {
				return err
			}
		}
	}
	return nil
}

// row measures one limit with m.keys keys, and prints the result.
func (m *measurement) row(ctx context.Context, w io.Writer, clients []*client.Client, algorithm string, requests int, window string) error {
	firsts, admitted := 0, 0
	var slowest []time.Duration
	for k := range m.keys {
		var worst time.Duration
		for n := range requests {
			began := time.Now()
			answer, err := clients[k%regions].Check(ctx, &aliquotv1.CheckRequest{Attributes: map[string]string{
				"plan": rule(algorithm, requests), "api_key": fmt.Sprintf("key-%d", k),
			}})
			if err != nil {
				return err
			}
			worst = max(worst, time.Since(began))
			if answer.GetAllowed() {
				admitted++
				if n == 0 {
					firsts++
				}
			}
		}
		slowest = append(slowest, worst)
	}
	slices.Sort(slowest)
	fmt.Fprintf(w, "%s\t%d in %s\t%d of %d\t%.3f\t%v\t%v\n", algorithm, requests, window, firsts, m.keys,
		float64(admitted)/float64(requests*m.keys), slowest[len(slowest)/2].Round(time.Millisecond), slowest[len(slowest)-1].Round(time.Millisecond))
	return nil
}
