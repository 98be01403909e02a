package compare

import (
	"time"

	"aliquot/internal/sim"
	"aliquot/internal/sim/site"
)

// ideal is one exact bucket for each key, the same everywhere at once: the yardstick,
// which no limiter that is made of machines can be.
type ideal struct {
	w       *sim.Driven
	buckets []*bucket
}

func newIdeal(w *sim.Driven, load *Workload) limiter { return idealOf(w, load) }

func idealOf(w *sim.Driven, load *Workload) *ideal {
	i := &ideal{w: w}
	for k := range load.Keys {
		i.buckets = append(i.buckets, newBucket(load.limitOf(k), 1, 1))
	}
	return i
}

func (i *ideal) ask(_, key, n int, answer func(site.Decided)) {
	now := i.w.Now()
	answer(site.Decided{Admitted: i.buckets[key].take(n, now), At: now})
}

func (i *ideal) moves() int64             { return 0 }
func (i *ideal) cut(int, time.Duration)   {}
func (i *ideal) killLeader(time.Duration) {}
func (i *ideal) flush(int)                {}
