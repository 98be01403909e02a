package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// View is what all daemons that could be reached say of themselves and of each other.
type View struct {
	// Coordinators are sorted by address.
	Coordinators []Coordinator
	// Daemons are the regional daemons, sorted by region and address.
	Daemons []Daemon
}

// Coordinator is one coordinator as it was asked.
type Coordinator struct {
	Address string
	// NodeID is empty if only the address is known.
	NodeID string
	// Status is nil if the coordinator did not answer; Err says why.
	Status *aliquotv1.GetStatusResponse
	Err    error
	Clock  Clock
}

// Daemon is one regional daemon as its ops listener was asked.
type Daemon struct {
	// Region is empty if the daemon did not say it and no coordinator did.
	Region string
	// Ops is the address of the ops listener.
	Ops string
	// Err says why the daemon did not answer; nil if it did.
	Err   error
	Ready Readiness
	Store Store
	// WithoutStore counts the decisions since its start that were made without the store, by rule and mode.
	WithoutStore []Decisions
	Clock        Clock
}

// Readiness is the page /readyz.
type Readiness struct {
	Ready   bool   `json:"ready"`
	Region  string `json:"region"`
	Phase   string `json:"phase"`
	Session bool   `json:"session"`
	Reason  string `json:"reason"`
	// StoreReached is false if the store has not answered since the daemon's start; nil if the daemon does not say.
	StoreReached *bool `json:"store_reached"`
}

// Store is the page /store. Its zero value is that of a daemon which does not serve the page.
type Store struct {
	Kind    string   `json:"kind"`
	Down    bool     `json:"down"`
	Error   string   `json:"error"`
	Remedy  string   `json:"remedy"`
	Servers []Server `json:"servers"`
}

// Server is one server of a store.
type Server struct {
	Server         string `json:"server"`
	EvictionPolicy string `json:"eviction_policy"`
	AppendOnly     bool   `json:"append_only"`
	Snapshots      int    `json:"snapshots"`
	Hz             int    `json:"hz"`
}

// Decisions counts decisions of one rule in one mode.
type Decisions struct {
	Rule, Mode string
	Count      float64
}

// Clock bounds how far a wall clock is ahead of the one here. Unknown is the zero value.
type Clock struct {
	Known    bool
	Min, Max time.Duration
}

// clockOf reads the header Date of an answer, which has whole seconds.
func clockOf(date string, sent, received time.Time) Clock {
	at, err := http.ParseTime(date)
	if err != nil {
		return Clock{}
	}
	return Clock{Known: true, Min: at.Sub(received), Max: at.Add(time.Second).Sub(sent)}
}

// Look asks the coordinators at addresses, every other one that they name, and the regional daemons at the
// ops addresses and at those that the leader names. Each call takes timeout at most.
func Look(ctx context.Context, addresses, ops []string, timeout time.Duration) View {
	var v View
	client := rpc.NewHTTPClient()
	defer client.CloseIdleConnections()
	asked := map[string]bool{}
	for len(addresses) > 0 {
		found := each(addresses, func(address string) Coordinator { return askCoordinator(ctx, client, address, timeout) })
		for _, address := range addresses {
			asked[address] = true
		}
		v.Coordinators = append(v.Coordinators, found...)
		addresses = v.unasked(asked)
	}
	v.nameCoordinators()
	regions := map[string]string{} // by ops address
	for _, r := range v.regions() {
		if at := r.GetOpsAddress(); at != "" {
			regions[at] = r.GetName()
			ops = append(ops, at)
		}
	}
	slices.Sort(ops)
	v.Daemons = each(slices.Compact(ops), func(at string) Daemon { return askDaemon(ctx, client, at, regions[at], timeout) })
	slices.SortFunc(v.Daemons, func(a, b Daemon) int {
		return cmp.Or(strings.Compare(a.Region, b.Region), strings.Compare(a.Ops, b.Ops))
	})
	return v
}

// each calls f for all items at once and returns the results in the order of the items.
func each[T any](items []string, f func(string) T) []T {
	out := make([]T, len(items))
	var work sync.WaitGroup
	for i, item := range items {
		work.Go(func() { out[i] = f(item) })
	}
	work.Wait()
	return out
}

// unasked returns the addresses of members that were not asked and whose nodes have not answered under
// another address.
func (v *View) unasked(asked map[string]bool) (out []string) {
	answered := map[string]bool{}
	for _, c := range v.Coordinators {
		if c.Status != nil {
			answered[c.Status.GetNodeId()] = true
		}
	}
	for _, c := range v.Coordinators {
		for _, m := range c.Status.GetMembers() {
			if at := m.GetAddress(); at != "" && !asked[at] && !answered[m.GetNodeId()] && !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	return out
}

// nameCoordinators fills in the node ids of coordinators that did not answer, and adds members without a
// known address.
func (v *View) nameCoordinators() {
	for _, m := range v.members() {
		at := slices.IndexFunc(v.Coordinators, func(c Coordinator) bool {
			return c.NodeID == m.GetNodeId() || c.NodeID == "" && c.Address == m.GetAddress()
		})
		if at >= 0 {
			v.Coordinators[at].NodeID = m.GetNodeId()
			continue
		}
		v.Coordinators = append(v.Coordinators, Coordinator{
			Address: m.GetAddress(), NodeID: m.GetNodeId(), Err: errors.New("no coordinator knows where it serves RPC"),
		})
	}
	slices.SortFunc(v.Coordinators, func(a, b Coordinator) int {
		return cmp.Or(strings.Compare(a.NodeID, b.NodeID), strings.Compare(a.Address, b.Address))
	})
}

// best returns the status of the leader, or of the coordinator that has applied most; nil if none answers.
func (v *View) best() *aliquotv1.GetStatusResponse {
	var out *aliquotv1.GetStatusResponse
	for _, c := range v.Coordinators {
		switch {
		case c.Status == nil:
		case c.Status.GetState() == "leader" && (out.GetState() != "leader" || c.Status.GetTerm() > out.GetTerm()),
			out == nil, out.GetState() != "leader" && c.Status.GetAppliedIndex() > out.GetAppliedIndex():
			out = c.Status
		}
	}
	return out
}

func (v *View) members() []*aliquotv1.Member { return v.best().GetMembers() }
func (v *View) regions() []*aliquotv1.Region { return v.best().GetRegions() }

func askCoordinator(ctx context.Context, client *http.Client, address string, timeout time.Duration) Coordinator {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, call := connect.NewClientContext(ctx)
	sent := time.Now()
	status, err := aliquotv1connect.NewClusterServiceClient(client, rpc.BaseURL(address)).GetStatus(ctx, &aliquotv1.GetStatusRequest{})
	if err != nil {
		return Coordinator{Address: address, Err: err}
	}
	return Coordinator{Address: address, NodeID: status.GetNodeId(), Status: status, Clock: clockOf(call.ResponseHeader().Get("Date"), sent, time.Now())}
}

func askDaemon(ctx context.Context, client *http.Client, at, region string, timeout time.Duration) Daemon {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := Daemon{Region: region, Ops: at}
	sent := time.Now()
	text, header, err := page(ctx, client, at, "/readyz")
	if err == nil {
		err = json.Unmarshal(text, &d.Ready)
	}
	if err != nil {
		d.Err = fmt.Errorf("/readyz: %w; is this the ops listener of a regional daemon?", err)
		return d
	}
	d.Region, d.Clock = d.Ready.Region, clockOf(header.Get("Date"), sent, time.Now())
	if text, _, err = page(ctx, client, at, "/store"); err == nil && json.Unmarshal(text, &d.Store) != nil {
		d.Store = Store{} // a daemon of an earlier version has no such page
	}
	if text, _, err = page(ctx, client, at, "/metrics"); err == nil {
		d.WithoutStore = withoutStore(string(text))
	}
	return d
}

// maxPage bounds what is read of a page.
const maxPage = 16 << 20

func page(ctx context.Context, client *http.Client, at, path string) (text []byte, header http.Header, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, rpc.BaseURL(at)+path, nil)
	if err != nil {
		return nil, nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxPage))
	return text, answer.Header, err
}

// decision is a line of /metrics that counts decisions; its labels are sorted.
var decision = regexp.MustCompile(`(?m)^aliquot_decisions_total\{mode="(emergency|fail_open|fail_closed)",outcome="[^"]*",region="[^"]*",rule="([^"]*)"\} (\S+)$`)

// withoutStore sums up the decisions without the store, by rule and mode.
func withoutStore(metrics string) (out []Decisions) {
	for _, m := range decision.FindAllStringSubmatch(metrics, -1) {
		count, err := strconv.ParseFloat(m[3], 64)
		if err != nil || count == 0 {
			continue
		}
		i := slices.IndexFunc(out, func(d Decisions) bool { return d.Rule == m[2] && d.Mode == m[1] })
		if i < 0 {
			i, out = len(out), append(out, Decisions{Rule: m[2], Mode: m[1]})
		}
		out[i].Count += count
	}
	return out
}
