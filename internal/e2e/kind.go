package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aliquot/internal/bench"
)

// anotherKind is RulesYAML with another placement of the big limit, and with another small limit
// by which answers show that it is in force.
func anotherKind() string {
	yaml := strings.Replace(RulesYAML, "capacity: 60,", "capacity: 61,", 1)
	return strings.Replace(yaml, "  - id: per-key\n", "  - id: per-key\n    placement: split\n", 1)
}

// kindChanged: rules by which a client would have one limit in the staged regions and another one
// in the rest are not staged. Applied everywhere at once they give no more than both limits while
// they come, and then one.
func kindChanged(ctx context.Context, l *Cluster, s Scale) ([]Result, error) {
	at, err := l.someLeader(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.dir, "another-kind.yaml")
	if err := os.WriteFile(file, []byte(anotherKind()), 0o600); err != nil {
		return nil, err
	}
	code, said, err := l.command(ctx, "rules", "apply", file, "--stage-regions", l.Regions[2].Region, "--addr", at.Address)
	if err != nil {
		return nil, err
	}
	out := []Result{
		refused("a stage that changes a rule's placement", code, said,
			`rule "per-key" changes its placement (auto to split)`, "everywhere at once, without a stage", "new id"),
	}
	if code == 0 { // what it would admit, and whether the coordinators see it
		staged, err := bench.Rotate(ctx, l.paced(s.Run))
		if err != nil {
			return nil, err
		}
		_, _, err = l.command(ctx, "rules", "abort", "--addr", at.Address)
		return append(out, prefixed("while it is staged: ", bounded(staged)...)...), err
	}
	c := l.paced(s.Run)
	c.Limit = bench.Limit{Capacity: 2 * big.Capacity, Refill: big.Refill}
	during := begin(ctx, c)
	pause(ctx, 2*time.Second)
	if _, err := l.applyRules(ctx, anotherKind(), 61); err != nil {
		return nil, err
	}
	r, err := during.wait()
	if err != nil {
		return nil, err
	}
	out = append(out, prefixed("while another placement comes into force, of both bursts and the rate: ", bounded(r)...)...)
	if r, err = bench.Rotate(ctx, l.paced(max(s.Run, 10*time.Second))); err != nil {
		return nil, err
	}
	out = append(out, prefixed("under the other placement: ", bounded(r)...)...)
	_, err = l.applyRules(ctx, RulesYAML, 60)
	return out, err
}

// refused is the promise that a command fails and says all of these words.
func refused(what string, code int, said string, words ...string) Result {
	r := Result{Promise: what + " is refused, with what to do", Want: "exit code 1 and the reason", Got: fmt.Sprintf("exit code %d: %s", code, said), OK: code == 1}
	for _, word := range words {
		r.OK = r.OK && strings.Contains(said, word)
	}
	return r
}
