package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"aliquot/internal/bench/load"
)

// side is one of the servers that are compared.
type side struct {
	name    string
	config  load.Config
	reports []*load.Report
}

// config is a load on a server, of the protocol's usual shape.
func (b *bench) config(p load.Protocol, s *server, redis ...*server) load.Config {
	c := load.DefaultConfig()
	c.Protocol, c.Address, c.Server.PID = p, s.address, s.cmd.Process.Pid
	if p == load.Connect || p == load.HTTP {
		if s.connect != "" {
			c.Address = s.connect
		}
	}
	c.Duration, c.Warmup, c.Keys = b.slice, b.warmup, b.keys
	for _, r := range redis {
		c.Redis = append(c.Redis, r.url())
	}
	return c
}

// inTurns runs every side, one after the other, so many times.
func (b *bench) inTurns(ctx context.Context, sides ...*side) error {
	for range b.pairs {
		for _, s := range sides {
			r, err := load.Run(ctx, s.config)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if err := usable(r); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.reports = append(s.reports, r)
		}
	}
	return nil
}

// usable refuses a run that did not measure what it was to measure.
func usable(r *load.Report) error {
	const mostFailed = .001
	switch {
	case r.Checks == 0:
		return fmt.Errorf("no check was answered: %v", r.Examples)
	case float64(r.Failed) > mostFailed*float64(r.Checks):
		return fmt.Errorf("%d of %d checks failed: %v", r.Failed, r.Checks+r.Failed, r.Examples)
	}
	for mode := range r.Modes {
		if mode == "no_rule" || mode == "no_rules_yet" {
			return fmt.Errorf("checks were decided without a rule: %v", r.Modes)
		}
	}
	return nil
}

// against is the median, over the turns, of a figure divided by another side's.
func (s *side) against(o *side, figure func(*load.Report) float64) float64 {
	p := load.Pair{A: s.reports, B: o.reports}
	return p.Ratio(figure)
}

func (s *side) median(figure func(*load.Report) float64) float64 {
	return load.Median(s.reports, figure)
}

// rate, cpu and times are figures in a table's words.
func (s *side) rate() string {
	return fmt.Sprintf("%s checks/s", grouped(s.median(load.ChecksPerSecond)))
}

func (s *side) cpu() string {
	return fmt.Sprintf("%.2f (+%.2f Redis) CPU s/M", s.median(load.ServerCPU), s.median(load.RedisCPU))
}

func (s *side) times() string {
	return fmt.Sprintf("p50 %s, p99 %s", inMicros(s.median(load.P50)), inMicros(s.median(load.P99)))
}

func inMicros(seconds float64) string {
	return fmt.Sprintf("%.0f us", seconds*float64(time.Second/time.Microsecond))
}

// grouped prints a whole number with commas.
func grouped(f float64) string {
	text := fmt.Sprint(int64(math.Round(f)))
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func times(ratio float64) string { return fmt.Sprintf("%.2fx", ratio) }

// atLeast and atMost are rows about a ratio.
func atLeast(what, measured, against string, ratio, least float64) row {
	return row{what, measured, against, times(ratio), fmt.Sprintf(">= %.2fx", least), ratio >= least}
}

func atMost(what, measured, against string, ratio, most float64) row {
	return row{what, measured, against, times(ratio), fmt.Sprintf("<= %.2fx", most), ratio <= most}
}
