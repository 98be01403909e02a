package budget

import (
	"time"

	"aliquot/internal/hashslot"
)

// Instant is a reading of one host's boot clock in nanoseconds. That clock (CLOCK_BOOTTIME) also
// runs while the host sleeps. Instants of two hosts are never compared.
type Instant int64

// Add returns the instant d after t.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub returns the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Hello opens a session. It says what a region holds and acknowledges nothing.
type Hello struct {
	Region      int
	Incarnation uint64
	RedisEpoch  string
	Nonce       uint64
	Rules       RulesState
	Held        []Held
	// Unreached lists the hash slots of the store in which the region cannot change any share at
	// present, because their server does not answer. It is nil if there are none.
	Unreached *hashslot.Set
	Standing
}

// DaemonID identifies a daemon of a region, across restarts. Zero identifies none.
type DaemonID uint64

// Standing is what a daemon reports of itself and of the other daemons of its region. The zero
// value is that of a daemon that reports nothing of this.
type Standing struct {
	Daemon DaemonID
	// Storeless: the daemon's store does not answer, or has not taken the latest mark that the
	// region is heard.
	Storeless bool
	// Alone: the daemon admits by its emergency limit while its store does not answer. A daemon
	// that knows of another one does not.
	Alone bool
	// Others are the other daemons of the region that this one knows of, at most MaxDaemons.
	Others []DaemonID
}

// MaxDaemons bounds how many daemons of a region are known at a time.
const MaxDaemons = 32

// Held is a share that a region reports to hold.
type Held struct {
	Key   KeyID
	Gen   Gen
	Share Share
	// Limit is zero if the region does not know it. For keys that no region uses, this is the only
	// way in which a new leader learns the limit.
	Limit KeyLimit
}

// HelloOK is directive 0 of a new session. It has a share for every hot key whose share differs
// from what the region said it holds, and "cold" for every reported key that is not hot.
type HelloOK struct {
	Region  int
	Epoch   uint64
	Session uint64
	Nonce   uint64
	// Watermark is the latest generation sent to any region when the session opened. With the
	// actions applied, the region knows every generation up to it.
	Watermark Gen
	Actions   []Action
}

// Report carries a region's usage to the leader. Counters are cumulative over the session.
type Report struct {
	Region  int
	Epoch   uint64
	Session uint64
	Seq     uint64
	TSend   Instant    // an instant of the region's clock, opaque to the leader
	Ack     uint64     // the latest directive whose actions are all applied; see Opening
	Rules   RulesState // what the limits in it belong to
	// Pace is the interval at which the region reports one busy key at present. A key that is
	// missing from a report may have been used during that interval.
	Pace time.Duration
	Keys []KeyReport
	// Unreached is as in Hello.
	Unreached *hashslot.Set
	// Opening: the region is still applying the answer to its Hello. The report acknowledges the
	// keys in it. It also acknowledges that the directives up to Ack were received, which have no
	// actions.
	Opening bool
	// Contents identifies the contents of the region's store; 0: not known. It serves those who
	// compare use with the limit, not the leader.
	Contents uint32
	Standing
}

// KeyReport is a region's usage of one key. A zero Gen asks to make the key hot. Amounts are
// micro-tokens.
type KeyReport struct {
	Key      KeyID
	Gen      Gen
	Share    Share
	Admitted int64
	Offered  int64
	Released int64
	Tokens   int64
	// Limit is the limit as the region read it at the latest request. It is zero if there was no request by
	// the region's present rules since the previous report.
	Limit     KeyLimit
	Rejecting bool
	// Idle is how long the key had been unused when the report was sent. Gap is the longest recent
	// pause between two uses: a key that is used in batches is not idle between them.
	Idle, Gap time.Duration
	Cold      bool // the report acknowledges an Action with Cold
	// InUse is for a counting limit whose earlier use outlasts the share: the part of the limit in
	// use, in units of 2^-20. It is 0 if the share covers the use. If it is above Share.Burst, the
	// report acknowledges only InUse.
	InUse int32
	// Label numbers the window of the region's store when the region last examined the share, from
	// 1 on (fixed windows only). It is of the windows of Limit, whose Tail is told with it although
	// the rest is unknown.
	Label int64
	// Refunded bounds how much of what was admitted has been given back. It serves those who
	// compare Admitted with the limit, not the leader.
	Refunded int64
}

// Spent is what a daemon admitted of a key beside the counters of a session, for those who compare
// admissions with the limit. Amounts are micro-tokens.
type Spent struct {
	Key                KeyID
	Limit              KeyLimit
	Admitted, Refunded int64
	// Age is how long ago the first of it was admitted, at most. In a message it counts back from the
	// latest answer of the leader.
	Age time.Duration
}

// KeyLimit is the limit of a key as its region reads it, for the leader's arithmetic. Amounts are
// micro-tokens, and micro-tokens a second.
type KeyLimit struct {
	Capacity int64
	Rate     int64
	RateFrac int64 // millionths of a micro-token a second
	// Tail is how long use can outlast the right to it: 0 for buckets, at most MaxTail.
	Tail time.Duration
	// Placement is the placement that the key's rule asks for.
	Placement Placement
	// Algorithm is how the limit counts, as a value of limit.Algorithm; 0: unknown. Nothing in this
	// package depends on it. It is for regions whose rules lack the key's rule.
	Algorithm uint8
}

// valid reports whether a rule can have the limit. The leader's arithmetic would overflow with
// larger values.
func (l KeyLimit) valid() bool {
	return l.Capacity >= 0 && l.Capacity <= maxTokens && l.Rate >= 0 && l.Rate <= maxTokens &&
		l.RateFrac >= 0 && l.RateFrac < 1_000_000 && l.Tail >= 0 && l.Tail <= MaxTail
}

// Directive answers a Report.
type Directive struct {
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
	Cold    bool  // the key returns to cold, and Share is the floor
	// From is the first window in which a share that grows counts at once, since every region's use
	// of it is known. 0: only the region's next window is certain to be such a window (fixed
	// windows only).
	From int64
	// Limit is the key's limit as other regions reported it, for a region that has not used the
	// key. It is zero if the leader does not know it.
	Limit KeyLimit
}
