package compare

import (
	"time"

	"aliquot/internal/sim"
	"aliquot/internal/sim/site"
)

// local is what limiters share whose regions decide alone: a bucket of each key in
// each region, in a store beside the daemon.
type local struct {
	w       *sim.Driven
	buckets [][]*bucket // by region, by key
}

// newLocal gives every region the same part of every limit: 1/of.
func newLocal(w *sim.Driven, load *Workload, of int64) *local {
	l := &local{w: w}
	for range load.RTTs {
		var keys []*bucket
		for k := range load.Keys {
			keys = append(keys, newBucket(load.limitOf(k), 1, of))
		}
		l.buckets = append(l.buckets, keys)
	}
	return l
}

// inStore lets decide happen in the store, and the answer come back.
func inStore(w *sim.Driven, answer func(site.Decided), decide func() int) {
	w.After(w.Store(), func() {
		d := site.Decided{At: w.Now(), Admitted: decide()}
		w.After(w.Store(), func() { answer(d) })
	})
}

func (l *local) ask(region, key, n int, answer func(site.Decided)) {
	inStore(l.w, answer, func() int { return l.buckets[region][key].take(n, l.w.StoreTime(region)) })
}

func (l *local) moves() int64             { return 0 }
func (l *local) cut(int, time.Duration)   {}
func (l *local) killLeader(time.Duration) {}
func (l *local) flush(region int) {
	for _, b := range l.buckets[region] {
		b.forget()
	}
}

// newIndependent is a full bucket in each region: a limiter that is installed once a
// region, with a counter store of its own, and knows nothing of the others. It is what
// most gateways and libraries come to when they are run in several regions (LiteLLM
// pull request 41221 shows it: 7 requests admitted of 4). A client gets N limits.
func newIndependent(w *sim.Driven, load *Workload) limiter { return newLocal(w, load, 1) }

// newStatic is a bucket of 1/N of the limit in each region, for ever: what an operator
// does by hand with the former. It never exceeds the limit and is as good as the
// split fits the demand.
func newStatic(w *sim.Driven, load *Workload) limiter {
	return newLocal(w, load, int64(len(load.RTTs)))
}
