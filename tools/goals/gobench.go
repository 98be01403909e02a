package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

const (
	leasedChecks  = 10e6 // a second
	memoryBytes   = 100
	tickP99Millis = 100
)

// result is a line of a Go benchmark: its figures by unit.
type result struct {
	name    string
	figures map[string]float64
}

// goBenchmarks runs a package's benchmarks and reads their lines.
func (b *bench) goBenchmarks(ctx context.Context, pkg, pattern string, args ...string) ([]result, error) {
	out, err := b.goTest(ctx, append([]string{"-run", "^$", "-bench", pattern, "-benchmem", pkg}, args...)...)
	if err != nil {
		return nil, err
	}
	var results []result
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		r := result{name: f[0], figures: map[string]float64{}}
		for i := 2; i+1 < len(f); i += 2 {
			if r.figures[f[i+1]], err = strconv.ParseFloat(f[i], 64); err != nil {
				return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
			}
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("no benchmark %s in %s", pattern, pkg)
	}
	return results, nil
}

func (b *bench) goTest(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1"}, args...)...)
	cmd.Dir = b.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go test %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// held is a check that is decided in the process, without any transport.
func (b *bench) held(ctx context.Context) ([]row, error) {
	results, err := b.goBenchmarks(ctx, "./regional", "^BenchmarkHeld", "-benchtime", "2s")
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, r := range results {
		rate, p99, allocations := 1e9/r.figures["ns/op"], r.figures["p99-ns"], r.figures["allocs/op"]
		rows = append(rows, row{what: "decision in the process, " + strings.TrimPrefix(r.name, "Benchmark"),
			measured: fmt.Sprintf("%s checks/s, p99 %.0f ns, %.0f allocations", grouped(rate), p99, allocations),
			goal:     ">= 10,000,000/s, p99 < 1 us, 0 allocations", met: rate >= leasedChecks && p99 < 1000 && allocations == 0})
	}
	return rows, nil
}

// leader is a coordinator's leader at size, in the simulator's fleet.
func (b *bench) leader(ctx context.Context) ([]row, error) {
	results, err := b.goBenchmarks(ctx, "./budget", "ScaleCycle/hot=100000$", "-benchtime", "10x")
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, r := range results {
		core, p99 := r.figures["ns/op"]/1e9, r.figures["ms-p99/step"]
		rows = append(rows, row{what: "leader, 10 regions, 100,000 hot keys, 2,000 moves a second", measured: fmt.Sprintf("%.2f of a core, step p99 %.1f ms", core, p99),
			goal: "<= 1 core, p99 < 100 ms", met: core <= 1 && p99 < tickP99Millis})
	}
	return rows, nil
}

// memoryStore is what a cold key takes in the embedded store, and what a check costs
// there with more and more keys.
func (b *bench) memoryStore(ctx context.Context) ([]row, error) {
	out, err := b.goTest(ctx, "-run", "^TestMemoryBytesPerKey$", "-v", "./regional/store/memory")
	if err != nil {
		return nil, err
	}
	found := regexp.MustCompile(`(\d+) bytes a key`).FindStringSubmatch(out)
	if found == nil {
		return nil, fmt.Errorf("no bytes a key in\n%s", out)
	}
	bytes, err := strconv.Atoi(found[1])
	if err != nil {
		return nil, err
	}
	rows := []row{{what: "bytes for a cold key in the memory store", measured: found[1], goal: fmt.Sprintf("<= %d", memoryBytes), met: bytes <= memoryBytes}}
	results, err := b.goBenchmarks(ctx, "./regional/store", "MemoryGrowth", "-benchtime", "1s")
	if err != nil {
		return rows, err
	}
	for _, r := range results {
		rows = append(rows, row{what: "check in the memory store, " + strings.TrimPrefix(r.name, "BenchmarkMemoryGrowth/"),
			measured: fmt.Sprintf("%.0f ns", r.figures["ns/op"]), against: fmt.Sprintf("%.0f ns", results[0].figures["ns/op"]),
			ratio: times(r.figures["ns/op"] / results[0].figures["ns/op"])})
	}
	return rows, nil
}
