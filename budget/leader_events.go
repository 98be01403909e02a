package budget

import "time"

// LeaderEvent is an input of Leader.Step.
type LeaderEvent interface{ leaderEvent() }

// HelloReceived is a region's Hello. The leader answers it with exactly one Welcome or Refuse.
type HelloReceived struct{ Hello Hello }

// ReportReceived is a region's Report. The leader answers it with exactly one Answer or Refuse.
type ReportReceived struct{ Report Report }

// Committed says that the Commit in flight was applied. A Commit that failed, or whose outcome is
// unknown, ends the leader instead.
type Committed struct{}

// Verified says that the Verify in flight proved the leadership. One that failed ends the leader
// instead.
type Verified struct{}

// RulesChanged says which rule numbers exist in a version of the rules. Tokens that regions
// released under an older version may be of larger limits, so the leader no longer hands them out.
type RulesChanged struct {
	Kept    func(rule uint32) bool
	Version uint64
	// Newest is the newest version that any region may use: that of a stage, or Version.
	Newest uint64
	// Tail returns the longest KeyLimit.Tail of a rule, in any version that a region may still use.
	// Its result must not change after the event. Nil: not known.
	Tail func(rule uint32) time.Duration
}

// DaemonLeft says that a daemon of a region has stopped.
type DaemonLeft struct {
	Region int
	Daemon DaemonID
}

// Tick lets time pass and starts a plan. It comes about every 20 ms.
type Tick struct{}

func (HelloReceived) leaderEvent()  {}
func (ReportReceived) leaderEvent() {}
func (Committed) leaderEvent()      {}
func (Verified) leaderEvent()       {}
func (RulesChanged) leaderEvent()   {}
func (DaemonLeft) leaderEvent()     {}
func (Tick) leaderEvent()           {}

// LeaderEffect is something that the caller of Leader.Step must do.
type LeaderEffect interface{ leaderEffect() }

// Commit asks to replicate a plan; Committed answers it. At most one is in flight.
type Commit struct{ Plan Plan }

// Verify asks for a proof that this is still the leader; Verified answers it.
type Verify struct{}

// Welcome answers a Hello.
type Welcome struct {
	OK          HelloOK
	Incarnation uint64 // of the daemon that said Hello
}

// Answer answers the region's latest Report.
type Answer struct{ Directive Directive }

// Refuse answers a Hello (Nonce is not zero) or a Report (Nonce is zero). Each daemon counts its
// Hellos by itself, so it takes the incarnation too to tell which Hello it is.
type Refuse struct {
	Region      int
	Incarnation uint64
	Nonce       uint64
	Seq         uint64
	Err         error
}

func (Commit) leaderEffect()  {}
func (Verify) leaderEffect()  {}
func (Welcome) leaderEffect() {}
func (Answer) leaderEffect()  {}
func (Refuse) leaderEffect()  {}
