package limit

// Phase says what a region's right to spend is based on; see docs/reference/protocol.md.
type Phase uint8

// The phases of a region. The zero value is the most cautious one.
const (
	// Limbo: the lease has ended. The right is the smaller of share and floor.
	Limbo Phase = iota
	// Live: the lease holds. The right is the share.
	Live
	// Floor: the region was cut off for so long that every other one has made room. The right is
	// the floor.
	Floor
)

// Bucket is a local token bucket: what a region may hold and how fast that refills.
type Bucket struct {
	Cap  Tokens
	Rate Rate
}

// View is everything that a region's daemon knows about its right to spend one key. It goes with
// each call, so that a paused daemon or a delayed command cannot spend by rights that have ended.
// Times are microseconds of the store's own clock.
type View struct {
	// Hot: the key has a share of its own. If not, Gen is the highest generation that the daemon
	// has applied for any key, and Share is unused.
	Hot bool
	Gen uint64
	// Known, in phase Live, is the highest generation that the daemon has applied for any key of
	// its session. A record may have a later share than the caller's, which another daemon of the
	// region applied. See leaseCovers.
	Known uint64
	// Algorithm and Window, in microseconds, are the limit's. For a counting limit the capacities
	// of the buckets below are rights, and their rates are not used.
	Algorithm Algorithm
	Window    int64
	// Slot identifies the slot that a request asks for (Concurrency only). It is above 0, at most
	// MaxExact, and never used before.
	Slot uint64
	// Lasts is the longest time that the slot is held, in microseconds. 0, and anything above
	// Window, stands for Window (Concurrency only).
	Lasts int64
	// Held are slots that the caller gave out while its store did not answer, and that are still in
	// use (Concurrency only). Those that the record does not have are entered, whatever else is in
	// use. A name may be sent as often as it takes for an answer to come.
	Held []HeldSlot
	// Cost is what the request costs at this limit alone, if that differs from the cost of the
	// request; otherwise 0.
	Cost Tokens
	// Share is the local bucket of the region's share (Hot only).
	Share Bucket
	// Floor is the local bucket of the region's floor: what a cold key gets.
	Floor Bucket
	// Extra is what an elastic limit's cold bucket holds above the floor's capacity. Its rate stays
	// the floor's. 0 is strict. Floor.Cap+Extra is at most MaxTokens.
	Extra Tokens
	// FloorSince is when the floor last changed; 0 if no change matters. What was earned before
	// counts only by Low.
	FloorSince int64
	// Low is this limit's bucket at the smallest floor that the region has had. No part of it is
	// above Floor's (only with FloorSince).
	Low Bucket
	// RuleSince is when the limit last changed; 0 if no change matters. Slow and Before say what is
	// known of the time until then (only with RuleSince).
	RuleSince int64
	// Slow is the slowest rate before RuleSince of what the view enforces in its phase. A record that
	// was last used earlier has earned no more until then. A counting limit has none.
	Slow Rate
	// Before is what is known of an absent record that was last used before RuleSince. Its time to
	// live was that of a faster bucket, so it may have expired before it was full by the present
	// limit. It held at least Before.Cap, less what Before.Rate earns from RuleSince on. The
	// records of a counting limit were kept for a shorter window: Before.Cap is then the most that
	// may have been in use, and the rate is 0.
	Before Bucket
	Phase  Phase
	// Since is when the present phase began: Live without a lapse, or Floor. For a counting limit
	// the floor comes its Tail later than for a bucket. Time before Since is refilled at the
	// smallest of the rates that could apply. A Floor call that runs before Since counts as Limbo.
	Since int64
	// HeardWait is how long every daemon of the region must have been without a lease before the
	// floor may be taken back. In phase Floor, Since is at the earliest Heard+HeardWait. It is in
	// microseconds and includes a limit's Tail; 0 turns the check off.
	HeardWait int64
	// Heard is when a daemon of the region last took a lease; 0 if none did. The store fills it in,
	// in phase Floor with HeardWait. Callers of a store leave it 0.
	Heard int64
	// Until is the end of the lease. A Live call that runs later counts as Limbo.
	Until int64
	// Birth is when the store's contents began, if they did not start full (a flush, a failover).
	// It is 0 if an absent cold bucket is a full one. For a bucket it is later by as long as chunks
	// of earlier contents may still be spent.
	Birth int64
	// Blind, in phase Floor or Limbo: the daemon has not been told which keys are lent, so an
	// absent record may be that of a lent key. If the store finds that the call is in Limbo after
	// all, LimboFloor replaces Floor. No part of it is above Floor's.
	Blind      bool
	LimboFloor Bucket
	// Deadline is the last instant at which a store may decide by this view; 0 sets none. A delayed
	// take must not spend what its daemon has given up since. Stores check it; Settle and Take do
	// not.
	Deadline int64
	// Stamp identifies the store's contents. A record with another stamp is not trusted.
	Stamp uint32
	// Debit is what an emergency limit admitted while the store could not be reached. It is taken
	// off first, at most to zero.
	Debit Tokens
	// Memory is what the caller knows of the record, in case the store has lost it with all its
	// contents; nil: nothing.
	Memory *Memory
	// Chunk is what the caller has borrowed of this key and wants to borrow (buckets only).
	Chunk ChunkView
}

// price returns what a request of a cost takes under this view.
func (v *View) price(cost Tokens) Tokens {
	if v.Cost != 0 {
		return v.Cost
	}
	return cost
}

// epochBits is how far a leader's epoch is shifted in a generation; see budget.Gen.Pack.
const epochBits = 32

// sharesLast is how recently a record must have been used, in microseconds, for a later share in it to count. A call that is
// overtaken by a change of the caller's share reaches the store within that time.
const sharesLast = 1_000_000

// leaseCovers reports whether the caller's lease covers the share of a record that is later than the
// caller's: another daemon of the region applied it, or this one just has.
//
//   - It must be later than all that the caller was told. An earlier one is of a session that ended without the caller's
//     knowledge.
//   - It must be of the same leader. A leader renews a lease if what it has sent and the floors of silent regions fit into
//     the limit. A later leader may send more than that to a daemon which says that it holds more, because the ledger
//     keeps what was not acknowledged. It then renews no lease, but the earlier one is in force still.
//   - It must be of the present limit. A record has a share in tokens, and only who was told that share knows which part of
//     the limit it is. So the record must have been used since the limit changed, and a moment ago.
func (v *View) leaseCovers(r *Record, now int64) bool {
	return r.Gen > v.Known && r.Gen>>epochBits == v.Known>>epochBits && r.At >= v.RuleSince && now-r.At <= sharesLast
}

// Cold returns the bucket of a cold key: the floor's, with Extra on top of its capacity.
func (v *View) Cold() Bucket {
	return Bucket{Cap: v.Floor.Cap + v.Extra, Rate: v.Floor.Rate}
}

// Record is what the store keeps for one key. The zero value is no record.
type Record struct {
	Hot   bool
	Stamp uint32
	// Tokens is below 0 if more was used than was reserved (see Adjust). Such a debt is at most the
	// limit's capacity and is paid first from what is earned.
	Tokens Tokens
	// Extra is tokens from the time when the key was cold that its share does not cover (Hot only,
	// elastic limits only). They are spent first. They do not refill or move, and phases do not
	// affect them.
	Extra Tokens
	// At is the store's clock at the last settlement, microseconds.
	At int64
	// Carry is the part of a micro-token that was earned but not yet counted, in millionths.
	Carry int64
	// Gen is the generation last applied. A cold record has one if its key was hot before: it makes
	// delayed changes and views stale.
	Gen uint64
	// Share is the bucket last applied (Hot only).
	Share Bucket
	// Lent is what callers have borrowed and may spend until LentUntil, in microseconds of the
	// store's clock. Meanwhile the bucket may hold that much less. LentUntil is 0 if nothing is
	// lent (buckets only).
	Lent      Tokens
	LentUntil int64
	// Use is set only for a counting limit, which has no Tokens, Extra, Carry or Lent. It is never
	// modified.
	Use *Use
}
