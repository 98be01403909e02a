package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"aliquot/internal/sim"
	"aliquot/internal/sim/site"
)

// settle is the time that regions and coordinators have to find each other before a
// run begins, and afterTime for the last answers to come back.
const (
	settle    = 3 * time.Second
	afterTime = time.Second
)

// rhoPPM is the bound of the ratio of two clocks' rates that worlds are made with.
const rhoPPM = 20_000

// quorum is one round between voters that stand 10 ms apart.
const quorum = 10 * time.Millisecond

// run is one workload over one limiter.
type run struct {
	load  *Workload
	seed  uint64
	world *sim.Driven
	under limiter
	ideal *ideal
	keys  []tally
	// By region, since load.Measured.
	offered, admitted []int
	latency           []time.Duration
	movesBefore       int64
}

// tally is what happened to one key.
type tally struct {
	history history
	to      []history // by region, of the key a step is measured with
	offered int
	// ahead is how many requests were admitted that the ideal bucket had denied, and
	// that no denial has paid for yet.
	ahead int
	false int
	// idealAdmitted counts since load.Measured.
	idealAdmitted int
}

// Run runs one workload over one limiter. An error is a promise that the simulator saw
// broken.
func Run(kind Kind, load Workload, seed uint64) (Outcome, error) {
	w := sim.NewDriven(sim.DriveOptions{
		Seed: seed, RTTs: load.RTTs, Quorum: quorum, Keys: drivenKeys(kind, &load),
		Drifting: load.Drifting, Bare: kind.bare,
	})
	r := &run{
		load: &load, seed: seed, world: w, under: kind.build(w, &load), ideal: idealOf(w, &load),
		keys: make([]tally, len(load.Keys)), offered: make([]int, len(load.RTTs)), admitted: make([]int, len(load.RTTs)),
	}
	for k := range r.keys {
		r.keys[k].to = make([]history, len(load.RTTs))
	}
	w.After(settle, r.begin)
	if v := w.Run(settle + load.Length + afterTime); v != nil {
		return Outcome{}, fmt.Errorf("%s over %s: %v", load.Name, kind.Name, v)
	}
	return r.outcome(kind), nil
}

func drivenKeys(kind Kind, load *Workload) []sim.DrivenKey {
	keys := make([]sim.DrivenKey, len(load.Keys))
	for k := range keys {
		keys[k] = sim.DrivenKey{Limit: load.limitOf(k), Elastic: kind.Elastic, Local: kind.Local}
	}
	return keys
}

func (r *run) begin() {
	r.world.After(r.load.Measured, func() { r.movesBefore = r.under.moves() })
	for i, s := range r.load.Sources {
		// A stream of its own for each source: what one limiter answers does not
		// change what is asked of it, or of another.
		r.start(s, rand.New(rand.NewPCG(r.seed, uint64(i))))
	}
	for _, f := range r.load.Faults {
		r.world.After(f.At, func() { r.fault(f) })
	}
}

func (r *run) fault(f Fault) {
	switch f.Kind {
	case Partition:
		r.under.cut(f.Region, f.Length)
	case LeaderKill:
		r.under.killLeader(f.Length)
	case StoreFlush:
		r.under.flush(f.Region)
	}
}

// now is the time since the run began.
func (r *run) now() time.Duration { return r.world.Now() - settle }

// ask makes a request n times, here and of the ideal bucket, and books the answer.
func (r *run) ask(region, key, n int) {
	if n == 0 || r.now() >= r.load.Length {
		return
	}
	sent, measured := r.now(), r.now() >= r.load.Measured
	t := &r.keys[key]
	t.offered += n
	ideally := r.ideal.buckets[key].take(n, r.world.Now())
	if measured {
		r.offered[region] += n
		t.idealAdmitted += ideally
	}
	r.under.ask(region, key, n, func(d site.Decided) {
		r.latency = append(r.latency, r.now()-sent)
		left := d.Admitted
		for _, a := range d.Here {
			r.admit(t, region, a)
			left -= a.N
		}
		if left > 0 {
			r.admit(t, region, site.Admission{N: left, At: d.At})
		}
		if measured {
			r.admitted[region] += d.Admitted
		}
		t.compare(ideally, d.Admitted)
	})
}

// admit books what was admitted at once.
func (r *run) admit(t *tally, region int, a site.Admission) {
	t.history = append(t.history, admission{a.At - settle, a.N})
	if r.load.Step > 0 {
		t.to[region] = append(t.to[region], admission{a.At - settle, a.N})
	}
}

// compare counts a false rejection where the ideal bucket admitted, unless it pays for
// an admission that the ideal bucket had denied.
func (t *tally) compare(ideally, admitted int) {
	t.ahead += admitted - ideally
	if t.ahead < 0 {
		t.false -= t.ahead
		t.ahead = 0
	}
}

// percentile is a value of a sorted list; 0 if it is empty.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

func sortedTimes(of []time.Duration) []time.Duration {
	slices.Sort(of)
	return of
}
