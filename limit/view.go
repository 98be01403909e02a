package limit

// Phase says what backs a region's right to spend; see docs/protocol.md.
type Phase uint8

// The phases of a region. The zero value is the most cautious one.
const (
	// Limbo: the lease has ended; the smaller of share and floor.
	Limbo Phase = iota
	// Live: the lease holds; the share.
	Live
	// Floor: cut off for so long that everyone has made room; the floor.
	Floor
)

// Bucket is a local token bucket: what a region may hold and how fast it refills.
type Bucket struct {
	Cap  Tokens
	Rate Rate
}

// View is everything a region's daemon knows about its right to spend one key,
// passed with each call so that a paused daemon or a stuck command cannot spend
// on rights that have ended. Times are microseconds of the store's own clock.
type View struct {
	// Hot tells whether the key has a share of its own. If not, Gen is the
	// highest generation the daemon has applied for any key, and Share is unused.
	Hot bool
	Gen uint64
	// Known, in phase Live, is the highest generation that the daemon has applied for any
	// key of its session: a record of a later share than the caller's, but no later than
	// this, is of a session that has ended without the caller hearing of it.
	Known uint64
	// Algorithm and Window, microseconds, are the limit's. For one that counts the
	// capacities of the buckets below are rights, and their rates are not used.
	Algorithm Algorithm
	Window    int64
	// Slot names the slot that a request asks for (Concurrency only): above 0, at
	// most MaxExact, and never used before.
	Slot uint64
	// Lasts is for how long the slot is held at most, microseconds; 0, and anything above
	// it, stands for Window (Concurrency only).
	Lasts int64
	// Cost is what this limit alone is asked for, where that differs from the cost of
	// the request; 0 if it does not.
	Cost Tokens
	// Share is the local bucket of the region's share (Hot only).
	Share Bucket
	// Floor is the local bucket of the region's floor: what a cold key gets.
	Floor Bucket
	// Extra is what an elastic limit's cold bucket holds above the floor's capacity;
	// its rate stays the floor's. 0 is strict. Floor.Cap+Extra is at most MaxTokens.
	Extra Tokens
	// FloorSince is when the floor last changed; 0 if no change matters. What was
	// earned before it counts at Low only.
	FloorSince int64
	// Low is the floor's bucket of this limit at the smallest floor the region has
	// had: no part of it is above Floor's (only with FloorSince).
	Low Bucket
	// RuleSince is when the limit last changed; 0 if no change matters. Slow and Before
	// tell what is known of the time until then (only with RuleSince).
	RuleSince int64
	// Slow is the slowest rate of a cold bucket before RuleSince: a record that was last
	// touched earlier has earned no more until then. A limit that counts has none.
	Slow Rate
	// Before is what is known of an absent record that was last touched before RuleSince.
	// Its time to live was that of a faster bucket, so it may have gone before it was full
	// by the present limit: it held at least Before.Cap, less what Before.Rate earns from
	// RuleSince on. For a limit that counts, whose records were kept for a shorter window,
	// Before.Cap is the most that may have been in use; the rate is 0.
	Before Bucket
	Phase  Phase
	// Since is when the present phase began (Live without a lapse, or Floor; for a
	// limit that counts, the floor comes its Tail later than for a bucket).
	// Time before it is refilled at the smallest of the rates that could apply, and
	// a Floor call that runs before it is treated as Limbo.
	Since int64
	// HeardWait is how long every daemon of the region must have been without a
	// lease before the floor may be taken back: in phase Floor, Since is at the
	// earliest Heard+HeardWait. Microseconds, a limit's Tail included; 0 if it is not to
	// be checked.
	HeardWait int64
	// Heard is when a daemon of the region last took a lease. The store knows and
	// fills it in, in phase Floor with HeardWait; 0 if none did. Callers of a store
	// leave it 0.
	Heard int64
	// Until is the lease's end; a Live call that runs later is treated as Limbo.
	Until int64
	// Birth is when the store's contents began, if they did not start full
	// (a flush, a failover); 0 if an absent cold bucket is a full one. For a bucket it is
	// later by as long as chunks of earlier contents may still be spent.
	Birth int64
	// Blind, in phase Floor or Limbo: the daemon has not been told which keys are lent, and an
	// absent record may be that of a lent one. If the call finds itself in Limbo after
	// all, LimboFloor stands for Floor; no part of it is above Floor's.
	Blind      bool
	LimboFloor Bucket
	// Deadline is the last instant at which a store may decide by this view; 0 sets
	// none. A take that got stuck on its way must not spend what its daemon has given
	// up since. Stores look at it; Settle and Take do not.
	Deadline int64
	// Stamp identifies the store's contents; a record with another one is not
	// trusted.
	Stamp uint32
	// Debit is what an emergency limit admitted while the store could not be
	// reached; it is taken off before anything else, at most to zero.
	Debit Tokens
	// Memory is what the caller knows of the record if the store has lost it with all its contents;
	// nil: nothing.
	Memory *Memory
	// Chunk is what the caller has borrowed of this key and wants to (buckets only).
	Chunk ChunkView
}

// price is what a request of one cost takes under this view.
func (v *View) price(cost Tokens) Tokens {
	if v.Cost != 0 {
		return v.Cost
	}
	return cost
}

// Cold is the bucket of a cold key: the floor's, and Extra on top of its capacity.
func (v *View) Cold() Bucket {
	return Bucket{Cap: v.Floor.Cap + v.Extra, Rate: v.Floor.Rate}
}

// Record is what the store keeps for one key. The zero value is no record.
type Record struct {
	Hot   bool
	Stamp uint32
	// Tokens are below 0 where more was used than was reserved (see Adjust): a debt, of
	// at most the limit's capacity, which what is earned pays first.
	Tokens Tokens
	// Extra are tokens from the time when the key was cold that its share does not
	// cover (Hot only, elastic limits only). They are spent first, do not refill,
	// do not move, and are not touched by phases.
	Extra Tokens
	// At is the store's clock at the last settlement, microseconds.
	At int64
	// Carry is the part of a micro-token earned but not yet counted, in
	// millionths.
	Carry int64
	// Gen is the generation last applied. A cold record has one after its key was
	// hot: it makes changes and views that got stuck on the way stale.
	Gen uint64
	// Share is the bucket last applied (Hot only).
	Share Bucket
	// Lent is out with callers who may spend it until LentUntil, microseconds of the
	// store's clock: as much less the bucket may hold meanwhile. LentUntil is 0 if nothing
	// is lent (buckets only).
	Lent      Tokens
	LentUntil int64
	// Use is there only for a limit that counts; one such has no Tokens, Extra, Carry
	// and Lent. It is never modified.
	Use *Use
}
