package rights

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/chunk"
	"aliquot/limit"
)

// Clock translates a daemon's instants to its store's clock, microseconds, erring to
// the safe side.
type Clock interface {
	// Until is a store time that the store's clock has reached for certain at the
	// instant; 0 if it was never read.
	Until(budget.Instant) int64
	// Since is a store time that the store's clock has not passed for certain at the
	// instant; limit.MaxExact if it was never read.
	Since(budget.Instant) int64
	// Leapt is a store time that the store's clock had not passed when it was last found
	// to have been set forward; 0 if it never was.
	Leapt() int64
}

// Daemon is what a daemon knows at one instant of itself and its store.
type Daemon struct {
	Region int
	Config budget.Config
	// Stamp names the store's contents, Birth is when they began (microseconds of the
	// store's clock). StartedFull is as in budget.Region.
	Stamp       uint32
	Birth       int64
	StartedFull bool
	Clock       Clock
	// ChunkLife is for how long tokens are taken from the store in advance; 0 stands for
	// chunk.Life.
	ChunkLife time.Duration
}

// Frame is what the views of all limits with one tail have in common at one instant.
// Limits of another tail may be in another phase: what was used under a right that
// has ended counts for a tail longer, and so long the floor has to wait.
type Frame struct {
	phase                           limit.Phase
	since, until, birth, floorSince int64
	heardWait                       int64
	known                           uint64
	stamp                           uint32
	blind, hasFloor                 bool
}

// Frame is for views of rights of that instant to limits with a tail; r is any of
// them.
func (d *Daemon) Frame(r budget.Right, tail time.Duration) Frame {
	f := Frame{phase: phaseOf(r.Phase), stamp: d.Stamp, hasFloor: d.hasFloor()}
	if f.phase == limit.Live {
		f.known = r.Watermark.Pack()
	}
	if r.FloorSince != 0 {
		// What is older earns less, so later is the safe side.
		f.floorSince = d.Clock.Since(r.FloorSince)
	}
	if r.Until != 0 {
		f.until = d.Clock.Until(r.Until)
	}
	if r.Since != 0 {
		f.since = d.Clock.Since(r.Since)
	}
	if f.phase == limit.Floor {
		f.heardWait = d.heardWait(tail)
		if leapt := d.Clock.Leapt(); leapt != 0 {
			// The mark of who was heard just before a leap looks old after it, though its
			// lease may not be over.
			f.since = max(f.since, min(leapt+f.heardWait, limit.MaxExact))
		}
	}
	if d.StartedFull {
		return f
	}
	f.birth = d.Birth
	if tail == 0 {
		f.birth += d.spent()
	}
	f.blind = r.Blind && d.Birth != 0 && f.phase != limit.Live
	if f.phase == limit.Floor {
		// New contents do not remember who was heard just before they began.
		f.since = max(f.since, min(d.Birth+f.heardWait, limit.MaxExact))
		if f.blind && tail == 0 {
			// Tokens are earned from then on. Rights are there at once: what could be
			// in use has been waited for.
			f.birth = max(f.birth, f.since)
		}
	}
	return f
}

// spent is how long after the birth of contents, microseconds of the store's clock, all
// that was taken in advance from earlier ones is spent or void. Buckets earn nothing
// before, for a chunk may be out that they do not know of.
func (d *Daemon) spent() int64 {
	life := d.ChunkLife
	if life == 0 {
		life = chunk.Life
	}
	us := life.Microseconds()
	return us + (us*int64(d.Config.RhoPPM)+999_999)/1_000_000 + 1
}

// View words a right to a limit for the store. An elastic limit's cold bucket holds
// all of the capacity; one that counts is strict whatever it says.
func (f *Frame) View(r budget.Right, l limit.Limit, elastic bool) limit.View {
	v := limit.View{
		Hot: r.Hot, Gen: r.Watermark.Pack(),
		Algorithm: l.Algorithm, Window: l.Window.Microseconds(),
		Floor: Bucket(l, r.Floor), FloorSince: f.floorSince,
		Phase: f.phase, Since: f.since, Until: f.until, HeardWait: f.heardWait,
		Birth: f.birth, Stamp: f.stamp, Known: f.known,
	}
	if f.blind && f.phase == limit.Limbo {
		// It may spend the floor of limbo, and has to keep the record for as long as
		// the floor that others go by needs to be full.
		v.Floor, v.LimboFloor = Bucket(l, r.Told), v.Floor
	}
	if elastic && f.hasFloor && !l.Algorithm.Counts() {
		v.Extra = l.Capacity - v.Floor.Cap
	}
	if f.floorSince != 0 {
		// While the daemon is blind its floor is smaller than any it was told.
		v.Low = Bucket(l, r.Low.Min(r.Floor))
	}
	if f.blind {
		v.Blind = true
		if f.phase == limit.Floor {
			v.LimboFloor = Bucket(l, r.LimboFloor)
		}
	}
	if r.Hot {
		v.Gen, v.Share = r.Gen.Pack(), Bucket(l, r.Share)
	}
	return v
}

// phaseOf is the machine's phase in the store's words.
func phaseOf(p budget.Phase) limit.Phase {
	switch p {
	case budget.Live:
		return limit.Live
	case budget.CutOff:
		return limit.Floor
	default:
		return limit.Limbo
	}
}

// hasFloor: the region has, or had, a part in every limit. One that is drained keeps
// nothing of an elastic burst.
func (d *Daemon) hasFloor() bool {
	return len(d.Config.Regions) > 0 && d.Config.Regions[d.Region].Floor != budget.Share{}
}

// heardWait is how long the store must not have heard of a lease of any daemon of the
// region before the floor may be taken back: what the machine waits itself, once more
// by rho because another clock measures, and as much as the store may be behind in
// what it was told.
func (d *Daemon) heardWait(tail time.Duration) int64 {
	if len(d.Config.Regions) == 0 {
		return 0
	}
	wait := (d.Config.FloorAfterUse(tail) + budget.MarkEvery).Microseconds() + 1
	return wait + (wait*int64(d.Config.RhoPPM)+999_999)/1_000_000
}
