package regional

import (
	"context"
	"errors"
	"time"

	"aliquot/budget"
	"aliquot/internal/ratelog"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/internal/telemetry"
)

const (
	// probeEvery is the interval of the calls that an idle daemon makes to know the store's clock
	// and health.
	probeEvery = time.Second
	// probeSoon is the shortest pause between two probes. It applies if a probe came a little early.
	probeSoon = 10 * time.Millisecond
	// suspectEvery is the interval of the daemon's own calls to a store whose last call failed. So
	// the breaker opens, or finds the store healthy, within half a second at any rate of traffic.
	suspectEvery = 25 * time.Millisecond
	// storeLoggedEvery is the minimum interval of log lines about a store that has not answered.
	storeLoggedEvery = 30 * time.Second
	// probeRule is the rule number of the probe's own record: the largest number, which no rule
	// reaches.
	probeRule = 1<<32 - 1
)

// probeStore learns the store's contents at the start. Then it calls the store often enough to know
// its clock and health even when no check comes. While the store does not answer, only probeStore
// calls it, so that no client waits for a trial.
func (d *Daemon) probeStore(ctx context.Context) {
	silence := ratelog.Limiter{Every: storeLoggedEvery}
	for {
		wait := probeEvery
		switch {
		case d.auth.CurrentEpoch() == "":
			err := d.guard.Learn(ctx)
			if err == nil {
				wait = 0
				break
			}
			d.session.StoreFailed()
			if why := storeguard.Reason(err); silence.Allow(why, time.Now()) {
				d.log.Error("the regional store has not answered since the start; asking again each second, and each rule's on_redis_failure decides until it does",
					"reason", why, "what_to_do", remedy(why), "error", err)
			}
		case d.guard.Silent():
			if d.guard.Breaker.TrialIn() == 0 {
				d.reconnect(ctx)
			}
			wait = max(probeSoon, d.guard.Breaker.TrialIn())
		case d.guard.Breaker.Suspects(), d.auth.Clock.Age(d.cfg.Now()) >= probeEvery:
			d.probe(ctx)
			if d.guard.Breaker.Suspects() {
				wait = suspectEvery
			}
		}
		if d.showStore() && silence.Reset() {
			d.log.Info("the regional store answers")
		}
		if !d.pauseProbe(ctx, wait) {
			return
		}
	}
}

// showStore exports whether the store answers, and reports whether its contents are known. A new connection
// may have learnt them although the question itself had no answer.
func (d *Daemon) showStore() (known bool) {
	known = d.auth.CurrentEpoch() != ""
	d.metrics.SetDegraded(telemetry.DegradedStore, d.storeDown.Load() || !known && d.session.Storeless())
	return known
}

// reconnect tries by new connections whether a store that did not answer is back. If the store becomes
// another server meanwhile, the outcome says nothing about that one, which is tried at once.
func (d *Daemon) reconnect(ctx context.Context) {
	before := d.primaries.Load()
	if pooled, ok := d.store.(interface{ Renew() }); ok {
		pooled.Renew()
	}
	d.probe(ctx)
	if d.primaries.Load() != before {
		d.guard.Breaker.TryNow()
	}
}

// pauseProbe waits until the time is over or wakeProbe is called. It returns false if ctx ended.
func (d *Daemon) pauseProbe(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-d.probeWake:
	case <-timer.C:
	}
	return true
}

// probe takes a millionth of a token from a bucket of its own.
func (d *Daemon) probe(ctx context.Context) {
	one := limit.Limit{Capacity: limit.Token, Rate: limit.Rate{Micro: int64(limit.Token)}}
	g := &charge.Transaction{Cost: 1, Charges: []charge.Charge{{Planned: charge.Planned{Limit: one, Key: budget.KeyID{Rule: probeRule}}}}}
	head := d.auth.Grant([]*charge.Transaction{g})
	_, _, err := d.guard.TakeAs(ctx, storeguard.OpProbe, head.Epoch, func() []lua.Group {
		return new(charge.CallBuffer).CallOf(&head, []*charge.Transaction{g}, nil)
	})
	if _, other := errors.AsType[*lua.EpochError](err); other {
		_ = d.guard.Learn(ctx) // the next probe asks again in a second
	}
}
