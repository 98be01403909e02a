package limits

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

// kindChanged: rules cannot be staged if a client would have one limit in the staged regions and another one in the
// rest. When they are applied everywhere at once, a client gets at most both limits during the change, and one limit
// after it.
func kindChanged(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	at, err := l.SomeLeader(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.Dir, "another-kind.yaml")
	if err := os.WriteFile(file, []byte(e2e.AnotherKind()), 0o600); err != nil {
		return nil, err
	}
	code, output, err := l.Command(ctx, "rules", "apply", file, "--stage-regions", l.Regions[2].Region, "--addr", at.Address)
	if err != nil {
		return nil, err
	}
	out := []promise.Result{
		refused("a stage that changes a rule's placement", code, output,
			`rule "per-key" changes its placement (auto to split)`, "everywhere at once, without a stage", "new id"),
	}
	if code == 0 { // show what it admits, and whether the coordinators count violations
		staged, err := bench.Rotate(ctx, clients.Paced(l, s.Run))
		if err != nil {
			return nil, err
		}
		_, _, err = l.Command(ctx, "rules", "abort", "--addr", at.Address)
		return append(out, promise.Prefixed("while it is staged: ", promise.Bounded(staged)...)...), err
	}
	c := clients.Paced(l, s.Run)
	c.Limit = bench.Limit{Capacity: 2 * e2e.Big.Capacity, Refill: e2e.Big.Refill}
	during := clients.Begin(ctx, c)
	e2e.Pause(ctx, 2*time.Second)
	if _, err := l.ApplyRules(ctx, e2e.AnotherKind(), 61); err != nil {
		return nil, err
	}
	r, err := during.Wait()
	if err != nil {
		return nil, err
	}
	out = append(out, promise.Prefixed("while another placement comes into force, of both bursts and the rate: ", promise.Bounded(r)...)...)
	if r, err = bench.Rotate(ctx, clients.Paced(l, max(s.Run, 10*time.Second))); err != nil {
		return nil, err
	}
	out = append(out, promise.Prefixed("under the other placement: ", promise.Bounded(r)...)...)
	_, err = l.ApplyRules(ctx, e2e.RulesYAML, 60)
	return out, err
}

// refused returns the promise that a command failed with code 1, and that its output has all of words.
func refused(what string, code int, output string, words ...string) promise.Result {
	r := promise.Result{Promise: what + " is refused, with what to do", Want: "exit code 1 and the reason", Got: fmt.Sprintf("exit code %d: %s", code, output), OK: code == 1}
	for _, word := range words {
		r.OK = r.OK && strings.Contains(output, word)
	}
	return r
}
