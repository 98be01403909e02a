package budget

import "time"

// Canon collects the canonical form of a state, for model checking. Two worlds of one configuration
// with the same form can do the same things. Facts go into Words as they are, with times relative
// to now. Counters go into Names. Only their order or distance matters, so the caller that has all
// parts of a world ranks them together. Everything that cannot matter is left out, each time with a
// reason.
//
// The zero value is ready for use; Reset makes it so again. It is not safe for concurrent use.
type Canon struct {
	Words []uint64
	Names []Name
	// Demand: the form includes how regions use their keys. A checker that divides the keys itself
	// (Leader.DivideBy) leaves it out.
	Demand bool
	// Longest is the age beyond which no age makes a difference, as the checker knows of its
	// worlds. Zero: a day.
	Longest time.Duration
	// Lapses: the form includes since when a lease has held without a lapse. That does not matter
	// to records that were used since.
	Lapses bool
}

// Name is one value of a counter.
type Name struct {
	Space Space
	Value uint64
}

// Space says which counter a Name is a value of. Only values of one space are ever compared. Its
// upper 8 bits are the NameKind.
type Space uint64

// NameKind says what matters about the values of a space.
type NameKind uint8

// The kinds of names. Each of them also says which values are equal.
const (
	// NameOrder: which values are larger.
	NameOrder NameKind = iota
	// NameNext: also whether one value directly follows another.
	NameNext
	// NameDistance: the distances between values, and nothing else.
	NameDistance
)

// Kind returns what matters about the space's values.
func (s Space) Kind() NameKind { return NameKind(s >> 56) }

// Counter distinguishes counters.
type Counter uint8

const (
	epochs Counter = iota
	generations
	sessions
	sequences
	nonces
	incarnations
	leaderTimes
	regionTimes
	offeredSums
	admittedSums
	releasedSums
	grantedSums
	// OtherCounters is the first counter that does not belong to the state machines.
	OtherCounters
)

// space returns the space of a counter that exists once for each a and b: an epoch, a region or a
// rule. The lower bits of a and b are enough to distinguish them.
func space(kind NameKind, c Counter, a, b uint64) Space {
	return Space(uint64(kind)<<56 | uint64(c)<<48 | a&0xffffff<<24 | b&0xffffff)
}

// Reset empties c and keeps its memory.
func (c *Canon) Reset() { c.Words, c.Names = c.Words[:0], c.Names[:0] }

// Int writes a number.
func (c *Canon) Int(v int64) { c.Words = append(c.Words, uint64(v)) }

// Bools writes up to 64 facts.
func (c *Canon) Bools(facts ...bool) {
	var bits uint64
	for i, f := range facts {
		if f {
			bits |= 1 << i
		}
	}
	c.Words = append(c.Words, bits)
}

// String writes a text.
func (c *Canon) String(s string) {
	c.Int(int64(len(s)))
	for len(s) > 0 {
		var word uint64
		n := min(len(s), 8)
		for i := range n {
			word = word<<8 | uint64(s[i])
		}
		c.Words = append(c.Words, word)
		s = s[n:]
	}
}

// Age writes how long ago t was, exactly up to longest. Nothing depends on a longer age.
func (c *Canon) Age(now, t Instant, longest time.Duration) {
	c.Int(int64(min(now.Sub(t), longest)))
}

// forever is longer than any wait of the protocol.
const forever = 24 * time.Hour

// Ago writes how long ago t was, up to the age beyond which nothing depends on it.
func (c *Canon) Ago(now, t Instant) {
	longest := c.Longest
	if longest == 0 {
		longest = forever
	}
	c.Age(now, t, longest)
}

// Left writes the time until t, 0 once t has passed.
func (c *Canon) Left(now, t Instant) { c.Int(int64(max(t.Sub(now), 0))) }

// Epoch writes a leader's epoch.
func (c *Canon) Epoch(epoch uint64) { c.name(space(NameOrder, epochs, 0, 0), epoch) }

// Gen writes a generation.
func (c *Canon) Gen(g Gen) {
	c.Epoch(g.Epoch)
	c.name(space(NameOrder, generations, g.Epoch, 0), g.Counter)
}

func (c *Canon) name(s Space, v uint64) { c.Names = append(c.Names, Name{s, v}) }

// Session writes the identity of a session.
func (c *Canon) Session(s SessionID) {
	c.Epoch(s.Epoch)
	c.name(space(NameOrder, sessions, s.Epoch, 0), s.Number)
}

// session writes a session and a position in it.
func (c *Canon) session(epoch, id, seq uint64) {
	c.Session(SessionID{Epoch: epoch, Number: id})
	c.name(space(NameNext, sequences, epoch, id), seq)
}

func (c *Canon) seq(epoch, id, seq uint64) {
	c.name(space(NameNext, sequences, epoch, id), seq)
}

// Incarnation writes the identity of a daemon of a region.
func (c *Canon) Incarnation(region int, incarnation uint64) {
	c.name(space(NameOrder, incarnations, uint64(region), 0), incarnation)
}

// Other writes a counter of another package, from OtherCounters on, of which there is one for each
// a and b.
func (c *Canon) Other(kind NameKind, counter Counter, a, b, v uint64) {
	c.name(space(kind, counter, a, b), v)
}

// regionTime writes an instant of a region's clock where the region's present is not known. Only
// the region reads it, and only to compare it.
func (c *Canon) regionTime(region int, t Instant) {
	c.name(space(NameOrder, regionTimes, uint64(region), 0), uint64(t))
}

// usage writes cumulative counters. The leader only checks whether they have grown.
func (c *Canon) usage(region int, k KeyID, admitted, offered int64) {
	c.name(space(NameOrder, admittedSums, uint64(region), uint64(k.Rule)), uint64(admitted))
	c.name(space(NameOrder, offeredSums, uint64(region), uint64(k.Rule)), uint64(offered))
}

// released writes a cumulative amount of released tokens. Only its growth matters.
func (c *Canon) released(region int, k KeyID, amount int64) {
	c.name(space(NameDistance, releasedSums, uint64(region), uint64(k.Rule)), uint64(amount))
}

func (c *Canon) granted(region int, k KeyID, amount int64) {
	c.name(space(NameDistance, grantedSums, uint64(region), uint64(k.Rule)), uint64(amount))
}

func (c *Canon) share(s Share) {
	c.Words = append(c.Words, uint64(uint32(s.Rate))<<32|uint64(uint32(s.Burst)))
}

func (c *Canon) key(k KeyID) {
	var high, low uint64
	for i := range 8 {
		high, low = high<<8|uint64(k.Hash[i]), low<<8|uint64(k.Hash[8+i])
	}
	c.Words = append(c.Words, uint64(k.Rule), high, low)
}

func (c *Canon) limit(l KeyLimit) {
	c.Int(l.Capacity)
	c.Int(l.Rate)
	c.Int(l.RateFrac)
	c.Int(int64(l.Tail))
	c.Int(int64(l.Placement))
	c.Int(int64(l.Algorithm))
}

// Config writes a configuration without the names of regions, which are for people.
func (c *Canon) Config(cfg *Config) {
	c.Int(int64(cfg.Lease))
	c.Int(int64(cfg.LeaseWait))
	c.Int(int64(cfg.LeaseNext))
	c.Bools(cfg.RhoRising)
	c.Int(int64(cfg.RhoPPM))
	c.Int(int64(cfg.Version))
	c.Int(int64(len(cfg.Regions)))
	for i := range cfg.Regions {
		r := &cfg.Regions[i]
		c.Int(int64(r.Weight))
		c.Bools(r.Joined, r.Fenced, r.DeclaredAtBootstrap)
		c.share(r.Floor)
		c.share(r.Told)
		c.share(r.Low)
		c.Int(int64(r.FloorVersion))
		c.String(r.InitialRedisEpoch)
	}
}
