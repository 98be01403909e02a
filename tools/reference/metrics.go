package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aliquot/coordinator"
	"aliquot/regional"
)

// metricsWithin bounds the time until both daemons have exported everything.
const metricsWithin = time.Minute

// metric is what is known of one.
type metric struct {
	name, kind, help string
	labels           []string
}

// metricsText runs a coordinator and a region on loopback, asks for a decision, and lists what they
// export.
func metricsText(string) (_ string, err error) {
	dir, err := os.MkdirTemp("", "aliquot-reference-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), metricsWithin)
	pair := &daemonPair{dir: dir, ended: make(chan error, 2), coordinator: prometheus.NewRegistry(), regional: prometheus.NewRegistry()}
	defer func() {
		cancel()
		err = errors.Join(err, pair.wait())
	}()
	if err := pair.start(ctx); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(wrapped("Both daemons serve them under `/metrics` of `--ops-listen`: 127.0.0.1:7403 for a coordinator, 127.0.0.1:7503 for a "+
		"regional daemon. No label has a value that a client chooses. [Operations](operations.md) says what to look at.") + "\n\n")
	for _, daemon := range []struct {
		name string
		from *prometheus.Registry
	}{{"regional", pair.regional}, {"coordinator", pair.coordinator}} {
		metrics, err := complete(ctx, daemon.from)
		if err != nil {
			return "", fmt.Errorf("%s: %w", daemon.name, err)
		}
		b.WriteString("## " + daemon.name + "\n\n")
		var rows [][]string
		for _, m := range metrics {
			rows = append(rows, []string{code(m.name), m.kind, strings.Join(coded(m.labels), ", "), sentence(m.help)})
		}
		b.WriteString(table([]string{"metric", "type", "labels", "meaning"}, rows))
	}
	b.WriteString(wrapped("Beside these, each daemon exports Go's metrics of a process: `go_*` and `process_*`.") + "\n")
	return b.String(), nil
}

func coded(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = code(w)
	}
	return out
}

// daemonPair is a coordinator and a regional daemon.
type daemonPair struct {
	dir                   string
	coordinator, regional *prometheus.Registry
	// running daemons send to ended.
	running int
	ended   chan error
}

// exampleRules have a rule that is coordinated, so that the metrics by rule are there.
const exampleRules = "rules: [{id: example, params: {limit: 100, window: 1m}}]\n"

// start returns when the region has its lease and has decided a request.
func (d *daemonPair) start(ctx context.Context) error {
	rulesFile := filepath.Join(d.dir, "rules.yaml")
	if err := os.WriteFile(rulesFile, []byte(exampleRules), 0o600); err != nil {
		return err
	}
	const free = "127.0.0.1:0"
	listening := make(chan string, 1)
	c := coordinator.DefaultConfig()
	c.NodeID, c.DataDir, c.BootstrapExpect, c.Regions, c.RulesFile = "c1", filepath.Join(d.dir, "c1"), 1, []string{"us"}, rulesFile
	c.Listen, c.RaftListen, c.GossipListen, c.OpsListen = free, free, free, free
	c.Logger, c.Registry = slog.New(slog.DiscardHandler), d.coordinator
	c.OnListening = func(a coordinator.Addresses) { listening <- a.RPC }
	d.run(func() error { return coordinator.Run(ctx, c) })
	var address string
	select {
	case address = <-listening:
	case <-ctx.Done():
		return fmt.Errorf("the coordinator did not start: %w", ctx.Err())
	}
	r := regional.DefaultConfig()
	r.Region, r.Coordinators, r.StateFile = "us", []string{address}, regional.NoStateFile
	r.Listen, r.GRPCListen, r.OpsListen = free, free, free
	r.Logger, r.Registry = slog.New(slog.DiscardHandler), d.regional
	daemon, err := regional.New(r)
	if err != nil {
		return err
	}
	d.run(func() error { return daemon.Run(ctx) })
	select {
	case <-daemon.Ready():
	case <-ctx.Done():
		return fmt.Errorf("the region has no lease: %w", ctx.Err())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+daemon.Addr()+"/check", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

func (d *daemonPair) run(daemon func() error) {
	d.running++
	go func() { d.ended <- daemon() }()
}

// wait returns when the daemons have ended, whose context must have.
func (d *daemonPair) wait() error {
	var errs []error
	for range d.running {
		if err := <-d.ended; err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// complete returns the metrics of a daemon once the types of all are known.
func complete(ctx context.Context, from *prometheus.Registry) ([]metric, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		metrics, missing, err := exported(from)
		if err != nil || len(missing) == 0 {
			return metrics, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("no sample tells the type of %q", missing)
		}
	}
}

// description is how a prometheus.Desc prints itself, which has no other way to tell what it is.
var description = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*")(?:, unit: "[^"]*")?, constLabels: \{.*?\}, variableLabels: \{(.*?)\}`)

// exported returns what a registry describes, sorted by name, and the names of those whose type no
// sample tells.
func exported(from *prometheus.Registry) (metrics []metric, missing []string, err error) {
	families, err := from.Gather()
	if err != nil {
		return nil, nil, err
	}
	byName := map[string]metric{}
	for _, f := range families {
		m := metric{name: f.GetName(), kind: strings.ToLower(f.GetType().String()), help: f.GetHelp()}
		for _, label := range f.GetMetric()[0].GetLabel() {
			m.labels = append(m.labels, label.GetName())
		}
		byName[m.name] = m
	}
	described := make(chan *prometheus.Desc)
	go func() {
		from.Describe(described)
		close(described)
	}()
	for d := range described {
		m := description.FindStringSubmatch(d.String())
		if m == nil {
			err = fmt.Errorf("cannot read %s", d)
			continue
		}
		name, err1 := strconv.Unquote(m[1])
		help, err2 := strconv.Unquote(m[2])
		if err = errors.Join(err, err1, err2); byName[name].name != "" {
			continue
		}
		// A counter by labels has no sample before it has counted.
		known := metric{name: name, help: help, kind: "counter"}
		if m[3] != "" {
			known.labels = strings.Split(m[3], ",")
			slices.Sort(known.labels)
		}
		if !strings.HasSuffix(name, "_total") {
			missing = append(missing, name)
		}
		byName[name] = known
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if strings.HasPrefix(name, "aliquot_") {
			metrics = append(metrics, byName[name])
		}
	}
	return metrics, missing, err
}
