package budget

import (
	"time"

	"aliquot/internal/hashslot"
)

// Instant is a reading of one machine's boot clock (a clock that runs while the
// machine sleeps, CLOCK_BOOTTIME), in nanoseconds. Instants of two machines are
// never compared.
type Instant int64

// Add is the instant d later.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub is the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Hello opens a session. A Hello says what a region holds; it acknowledges nothing.
type Hello struct {
	Shard        uint32 // of the ledger; see Shards
	Region       int
	Incarnation  uint64
	RedisEpoch   string
	Nonce        uint64
	RulesVersion uint64
	Held         []Held
	// Unreached are the hash slots of the store in which the region cannot change any share
	// at present, because their server does not answer; nil if there are none.
	Unreached *hashslot.Set
	Standing
}

// DaemonID names a daemon of a region, over its restarts. Zero names none.
type DaemonID uint64

// Standing is what a daemon says of itself and of the other daemons of its region. The zero
// value is that of a daemon which says nothing of this.
type Standing struct {
	Daemon DaemonID
	// Storeless: the daemon's store does not answer it, or has not taken the latest mark that
	// the region is heard.
	Storeless bool
	// Alone: the daemon admits by its emergency limit while its store does not answer. One
	// that knows of another daemon does not.
	Alone bool
	// Others are the other daemons of the region that it knows of, at most MaxDaemons.
	Others []DaemonID
}

// MaxDaemons bounds the daemons of a region that are known at a time.
const MaxDaemons = 32

// Held is a share a region says it holds.
type Held struct {
	Key   KeyID
	Gen   Gen
	Share Share
	// Limit is zero if the region does not know it. A new leader learns the limits
	// of keys that nobody uses from here alone.
	Limit KeyLimit
}

// HelloOK is directive 0 of a new session: a share for every hot key that differs
// from what the region said it holds, and "cold" for every key that is not hot.
type HelloOK struct {
	Shard   uint32
	Region  int
	Epoch   uint64
	Session uint64
	Nonce   uint64
	// Watermark is the latest generation given to anyone when the session opened:
	// with the actions applied, the region knows everything up to it.
	Watermark Gen
	Actions   []Action
}

// Report carries a region's usage up. Counters are cumulative over the session.
type Report struct {
	Shard        uint32
	Region       int
	Epoch        uint64
	Session      uint64
	Seq          uint64
	TSend        Instant // the region's clock, opaque to the leader
	Ack          uint64  // the latest directive whose actions are all applied; see Opening
	RulesVersion uint64
	// Pace is how far apart the region's reports of one busy key are at present: a
	// key that is not in a report may be used all the same for that long.
	Pace time.Duration
	Keys []KeyReport
	// Unreached as in Hello.
	Unreached *hashslot.Set
	// Opening: the region is still applying what the session begins with. The report
	// acknowledges the keys in it and that the directives up to Ack, which say nothing, were
	// received.
	Opening bool
	Standing
}

// KeyReport is a region's usage of one key. A zero Gen asks for the key to become
// hot. Amounts are micro-tokens.
type KeyReport struct {
	Key      KeyID
	Gen      Gen
	Share    Share
	Admitted int64
	Offered  int64
	Released int64
	Tokens   int64
	// Limit is as the region read it at the latest request; zero if there was none since
	// the last report.
	Limit     KeyLimit
	Rejecting bool
	// Idle is for how long the key had not been used when the report was sent, Gap the
	// longest pause between two uses of late: what comes in batches is not idle between
	// them.
	Idle, Gap time.Duration
	Cold      bool // acknowledges an Action with Cold
	// InUse is the part of the limit, in units of 2^-20, that use from before outlasts
	// the share by (for a limit that counts); 0 if none does. Above Share.Burst the
	// report acknowledges no more than that.
	InUse int32
	// Label numbers the window of the region's store when the share was last looked at
	// (fixed windows only), from 1 on.
	Label int64
	// Refunded is how much of what was admitted has been given back, at most: for who
	// holds Admitted against the limit, not for the leader.
	Refunded int64
}

// KeyLimit is the limit of a key as its region reads it, for the leader's
// arithmetic: micro-tokens, and micro-tokens a second.
type KeyLimit struct {
	Capacity int64
	Rate     int64
	RateFrac int64 // millionths of a micro-token a second
	// Tail is how long use can outlast the right to it; 0 for buckets. At most MaxTail.
	Tail time.Duration
	// Placement is what the key's rule asks for.
	Placement Placement
	// Algorithm is how the limit counts, in the store's words; 0: it is not known. Nothing
	// here depends on it: it is for regions whose rules do not have the key's rule.
	Algorithm uint8
}

// valid reports whether a rule can ask for the limit: beyond, the leader's arithmetic
// would overflow.
func (l KeyLimit) valid() bool {
	return l.Capacity >= 0 && l.Capacity <= maxTokens && l.Rate >= 0 && l.Rate <= maxTokens &&
		l.RateFrac >= 0 && l.RateFrac < 1_000_000 && l.Tail >= 0 && l.Tail <= MaxTail
}

// Directive answers a Report.
type Directive struct {
	Shard   uint32
	Region  int
	Epoch   uint64
	Session uint64
	Seq     uint64
	TSend   Instant // echoed from the Report it answers
	Renew   bool
	Actions []Action
	// Others are the other daemons of the region that the leader knows of.
	Others []DaemonID
}

// Action sets a region's share of one key.
type Action struct {
	Key     KeyID
	Gen     Gen
	Share   Share
	Granted int64 // micro-tokens, cumulative over the session
	Cold    bool  // the key returns to cold; Share is the floor
	// From is the first window in which a share that grows counts at once: no region's
	// use of an earlier one is unknown. 0: only the region's next window is certain to
	// be (fixed windows only).
	From int64
	// Limit is the key's limit as other regions reported it, for a region that
	// has not used the key; zero if the leader does not know it.
	Limit KeyLimit
}
