package budget

import "time"

// LeaderEvent is something that happened to the leader; see Leader.Step.
type LeaderEvent interface{ leaderEvent() }

// HelloReceived is a region's Hello. It gets exactly one Welcome or Refuse.
type HelloReceived struct{ Hello Hello }

// ReportReceived is a region's Report. It gets exactly one Answer or Refuse.
type ReportReceived struct{ Report Report }

// Committed tells that the Commit in flight was applied. (One that failed, or
// whose outcome is unknown, ends the leader.)
type Committed struct{}

// Verified tells that the Verify in flight proved the leadership. (One that failed
// ends the leader.)
type Verified struct{}

// RulesChanged tells which rule numbers there still are by a version of the rules. What
// regions release under an older one is of limits that may have been larger: it is not
// given out any more.
type RulesChanged struct {
	Kept    func(rule uint32) bool
	Version uint64
	// Tail is the longest KeyLimit.Tail that a rule has, by this version or one before
	// that a region may still go by. It must not change after the event. Nil: not known.
	Tail func(rule uint32) time.Duration
}

// DaemonLeft tells that a daemon of a region has stopped.
type DaemonLeft struct {
	Region int
	Daemon DaemonID
}

// Tick lets time pass and plans; every 20 ms or so.
type Tick struct{}

func (HelloReceived) leaderEvent()  {}
func (ReportReceived) leaderEvent() {}
func (Committed) leaderEvent()      {}
func (Verified) leaderEvent()       {}
func (RulesChanged) leaderEvent()   {}
func (DaemonLeft) leaderEvent()     {}
func (Tick) leaderEvent()           {}

// LeaderEffect is something the shell is to do; see Leader.Step.
type LeaderEffect interface{ leaderEffect() }

// Commit replicates a plan; answered by Committed. At most one is in flight.
type Commit struct{ Plan Plan }

// Verify proves that this is still the leader; answered by Verified.
type Verify struct{}

// Welcome answers a Hello.
type Welcome struct{ OK HelloOK }

// Answer answers the region's latest Report.
type Answer struct{ Directive Directive }

// Refuse answers a Hello (Nonce is not zero) or a Report (Nonce is zero).
type Refuse struct {
	Region int
	Nonce  uint64
	Seq    uint64
	Err    error
}

func (Commit) leaderEffect()  {}
func (Verify) leaderEffect()  {}
func (Welcome) leaderEffect() {}
func (Answer) leaderEffect()  {}
func (Refuse) leaderEffect()  {}
