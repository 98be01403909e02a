package entitlement

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/limit"
)

// Clock translates a daemon's instants to its store's clock, in microseconds. It errs on the safe
// side.
type Clock interface {
	// Until returns a store time that the store's clock has certainly reached at the instant; 0 if
	// the clock was never read.
	Until(budget.Instant) int64
	// Since returns a store time that the store's clock has certainly not passed at the instant;
	// limit.MaxExact if the clock was never read.
	Since(budget.Instant) int64
	// Leapt returns a store time that the store's clock had not passed when it was last found to
	// have been set forward; 0 if that never happened.
	Leapt() int64
}

// Daemon is what a daemon knows at one instant of itself and its store.
type Daemon struct {
	Region int
	Config budget.Config
	// Stamp identifies the store's contents. Birth is when they began, in microseconds of the
	// store's clock. StartedFull is as in budget.Region.
	Stamp       uint32
	Birth       int64
	StartedFull bool
	Clock       Clock
	// ChunkLife is the life of a chunk that the daemon borrows; 0 stands for prefetch.Life.
	ChunkLife time.Duration
}

// Frame is the common part of the views of all limits with one tail at one instant. Limits of
// another tail may be in another phase: use under a right that has ended counts for a tail longer,
// and the floor has to wait that long.
type Frame struct {
	phase                           limit.Phase
	since, until, birth, floorSince int64
	heardWait                       int64
	known                           uint64
	stamp                           uint32
	blind, hasFloor                 bool
}

// Frame returns the frame for views of limits with a tail, from rights of one instant. r is any of
// those rights.
func (d *Daemon) Frame(r budget.Right, tail time.Duration) Frame {
	f := Frame{phase: phaseOf(r.Phase), stamp: d.Stamp, hasFloor: d.hasFloor()}
	if f.phase == limit.Live {
		f.known = r.Watermark.Pack()
	}
	if r.FloorSince != 0 {
		// Older time earns less, so a later one is safe.
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
			// A mark that was made just before a leap looks old after it, although the lease of the
			// daemon that made it may still run.
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
		// New contents do not remember which daemons were heard just before they began.
		f.since = max(f.since, min(d.Birth+f.heardWait, limit.MaxExact))
		if f.blind && tail == 0 {
			// Tokens are earned from then on. Rights exist at once, because the wait covered what
			// could be in use.
			f.birth = max(f.birth, f.since)
		}
	}
	return f
}

// spent returns how long after the birth of contents every chunk of earlier contents is spent or
// void, in microseconds of the store's clock. Buckets earn nothing before, because a chunk may be
// lent that they do not know of.
func (d *Daemon) spent() int64 {
	life := d.ChunkLife
	if life == 0 {
		life = prefetch.Life
	}
	us := life.Microseconds()
	return us + (us*int64(d.Config.RhoPPM)+999_999)/1_000_000 + 1
}

// View translates a right to a limit into the store's terms. An elastic limit's cold bucket holds
// the whole capacity. A counting limit is strict, even if elastic is true.
func (f *Frame) View(r budget.Right, l limit.Limit, elastic bool) limit.View {
	v := limit.View{
		Hot: r.Hot, Gen: r.Watermark.Pack(),
		Algorithm: l.Algorithm, Window: l.Window.Microseconds(),
		Floor: Bucket(l, r.Floor), FloorSince: f.floorSince,
		Phase: f.phase, Since: f.since, Until: f.until, HeardWait: f.heardWait,
		Birth: f.birth, Stamp: f.stamp, Known: f.known,
	}
	if f.blind && f.phase == limit.Limbo {
		// The daemon may spend the limbo floor. It has to keep the record for as long as a bucket
		// of the floor that others use takes to fill.
		v.Floor, v.LimboFloor = Bucket(l, r.Told), v.Floor
	}
	if elastic && f.hasFloor && !l.Algorithm.Counts() {
		v.Extra = l.Capacity - v.Floor.Cap
	}
	if f.floorSince != 0 {
		// While the daemon is blind, its floor is smaller than any that it was told.
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

// phaseOf translates a phase of package budget into one of package limit.
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

// hasFloor reports whether the region has, or had, a part in every limit. A drained region keeps
// nothing of an elastic burst.
func (d *Daemon) hasFloor() bool {
	return len(d.Config.Regions) > 0 && d.Config.Regions[d.Region].Floor != budget.Share{}
}

// heardWait returns how long the store must not have heard of a lease of any daemon of the region
// before the floor may be taken back. That is the wait of budget.Region, once more by rho because
// another clock measures it, and by as much as the store's knowledge may be late.
func (d *Daemon) heardWait(tail time.Duration) int64 {
	if len(d.Config.Regions) == 0 {
		return 0
	}
	wait := (d.Config.FloorAfterUse(tail) + budget.MarkEvery).Microseconds() + 1
	return wait + (wait*int64(d.Config.RhoPPM)+999_999)/1_000_000
}
