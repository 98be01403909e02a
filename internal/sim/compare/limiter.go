package compare

import (
	"time"

	"aliquot/internal/sim"
	"aliquot/internal/sim/site"
)

// limiter decides the requests of a run. All its time passes in one world.
type limiter interface {
	// ask makes the same request of cost 1 n times at one instant in a region. answer is
	// called when the answer is back in the region, or never.
	ask(region, key, n int, answer func(site.Decided))
	// moves counts what was moved between regions so far: shares, or chunks.
	moves() int64
	// cut takes a region off the network for a while.
	cut(region int, length time.Duration)
	// killLeader kills the coordinating process, if there is one, for a while.
	killLeader(length time.Duration)
	// flush loses what a region's store holds.
	flush(region int)
}

// Kind is a limiter that can be compared.
type Kind struct {
	Name string
	// Elastic is judged by its own bound, a burst in each region.
	Elastic bool
	// Local: daemons take tokens from their stores in advance.
	Local bool
	// Instant is not of this world: it knows everything at once.
	Instant bool
	bare    bool // needs no coordinators and daemons
	build   func(*sim.Driven, *Workload) limiter
}

// Kinds are all limiters, ours first.
func Kinds() []Kind {
	return []Kind{
		{Name: "strict", Local: true, build: newAliquot},
		{Name: "elastic", Local: true, Elastic: true, build: newAliquot},
		{Name: "strict, no chunks", build: newAliquot},
		{Name: "ideal", Instant: true, bare: true, build: newIdeal},
		{Name: "independent", bare: true, build: newIndependent},
		{Name: "static split", bare: true, build: newStatic},
		{Name: "central, open", bare: true, build: newCentralOpen},
		{Name: "central, closed", bare: true, build: newCentralClosed},
		{Name: "gossip 100ms", bare: true, build: newGossip(100 * time.Millisecond)},
		{Name: "gossip 1s", bare: true, build: newGossip(time.Second)},
		{Name: "leases", bare: true, build: newLeases},
	}
}

// KindOf is the limiter of a name; the zero value if there is none.
func KindOf(name string) Kind {
	for _, k := range Kinds() {
		if k.Name == name {
			return k
		}
	}
	return Kind{}
}
