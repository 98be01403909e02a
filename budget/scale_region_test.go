package budget_test

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/sim/fleet"
)

// busyRegion returns a daemon's state machine with a session and a share of each key.
func busyRegion(b *testing.B, keys int) (*budget.Region, budget.Instant) {
	b.Helper()
	now := budget.Instant(time.Hour)
	cfg := budget.NewConfig([]string{"a", "b"}, 10*time.Second, 20_000)
	r := budget.NewRegion(0, cfg, 1, now)
	r.Step(budget.StoreEpoch{Epoch: "contents"}, now)
	hello, ok := r.Step(budget.RegionTick{}, now)[0].(budget.SendHello)
	if !ok {
		b.Fatal("no Hello")
	}
	answer := budget.HelloOK{Epoch: 1, Session: 1, Nonce: hello.Hello.Nonce}
	var applied budget.SharesApplied
	for n := range keys {
		answer.Actions = append(answer.Actions, budget.Action{
			Key: fleet.Key(n), Gen: budget.Gen{Epoch: 1, Counter: uint64(n + 1)}, Share: budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2},
			Limit: fleet.Limit,
		})
		applied.Results = append(applied.Results, budget.ShareResult{Key: fleet.Key(n)})
	}
	r.Step(budget.HelloAnswered{OK: answer, Config: cfg}, now)
	effects := r.Step(applied, now)
	if r.Info(now).HotKeys != keys {
		b.Fatalf("%d hot keys, want %d", r.Info(now).HotKeys, keys)
	}
	for sent := 1; sent > 0; { // until everything is acknowledged
		sent = answered(r, effects, now)
		now = now.Add(20 * time.Millisecond)
		effects = r.Step(budget.RegionTick{}, now)
	}
	answered(r, effects, now)
	return r, now
}

// answered answers a report with nothing to do, and returns its number of keys.
func answered(r *budget.Region, effects []budget.RegionEffect, now budget.Instant) (keys int) {
	for _, effect := range effects {
		if e, ok := effect.(budget.SendReport); ok {
			keys += len(e.Report.Keys)
			for _, next := range r.Step(budget.DirectiveReceived{Directive: budget.Directive{
				Epoch: 1, Session: e.Report.Session, Seq: e.Report.Seq, TSend: e.Report.TSend,
			}}, now) {
				if _, ok := next.(budget.ApplyShares); ok {
					r.Step(budget.SharesApplied{}, now)
				}
			}
		}
	}
	return keys
}

// use returns an admitting decision of a limit that is far from used up.
func use() budget.Usage {
	return budget.Usage{Limit: fleet.Limit, Cost: 1e6, Admitted: true, Tokens: 400e6, FloorCap: 500e6, ColdCap: 500e6}
}

// BenchmarkScaleObserve measures the cost of each decision on a hot key in the state machine.
func BenchmarkScaleObserve(b *testing.B) {
	bySize(b, func(b *testing.B, keys int) {
		r, now := busyRegion(b, keys)
		names := make([]budget.KeyID, keys)
		for n := range names {
			names[n] = fleet.Key(n)
		}
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			r.Observe(names[n%keys], use(), now)
			n++
		}
	})
}

// BenchmarkScaleReports measures a second of reports of a region in which every hot key is busy,
// with the answers to them.
func BenchmarkScaleReports(b *testing.B) {
	bySize(b, func(b *testing.B, keys int) {
		r, now := busyRegion(b, keys)
		sent, seconds := 0, 0
		for b.Loop() {
			for range 10 {
				b.StopTimer()
				for n := range keys {
					r.Observe(fleet.Key(n), use(), now)
				}
				b.StartTimer()
				now = now.Add(100 * time.Millisecond)
				sent += answered(r, r.Step(budget.RegionTick{}, now), now)
			}
			seconds++
		}
		b.ReportMetric(float64(sent)/float64(seconds), "keyreports/op")
	})
}

// BenchmarkScaleHello measures the Hello that names every hot key, with an answer that changes
// none.
func BenchmarkScaleHello(b *testing.B) {
	bySize(b, func(b *testing.B, keys int) {
		r, now := busyRegion(b, keys)
		cfg := r.Config()
		session := uint64(1)
		b.ReportAllocs()
		for b.Loop() {
			r.Step(budget.StoreLost{}, now) // closes the session
			now = now.Add(time.Second)
			hello, ok := r.Step(budget.RegionTick{}, now)[0].(budget.SendHello)
			if !ok || len(hello.Hello.Held) != keys {
				b.Fatalf("a Hello of %d keys", len(hello.Hello.Held))
			}
			session++
			r.Step(budget.HelloAnswered{OK: budget.HelloOK{Epoch: 1, Session: session, Nonce: hello.Hello.Nonce}, Config: cfg}, now)
			b.StopTimer()
			answered(r, r.Step(budget.SharesApplied{}, now), now)
			b.StartTimer()
		}
	})
}

// BenchmarkScaleCandidates measures a report while a flood of cold keys asks to become hot.
func BenchmarkScaleCandidates(b *testing.B) {
	r, now := busyRegion(b, 1)
	flood := use()
	flood.Admitted = false
	for n := range 60_000 {
		r.Observe(fleet.Key(1000+n), flood, now)
	}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(20 * time.Millisecond)
		answered(r, r.Step(budget.RegionTick{}, now), now)
		if r.Info(now).Candidates == 0 {
			b.StopTimer()
			for n := range 60_000 {
				r.Observe(fleet.Key(1000+n), flood, now)
			}
			b.StartTimer()
		}
	}
}
