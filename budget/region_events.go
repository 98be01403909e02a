package budget

import (
	"time"

	"aliquot/internal/hashslot"
)

// RegionEvent is an input of Region.Step.
type RegionEvent interface{ regionEvent() }

// HelloAnswered is the answer to a Hello, with the configuration that came with it.
type HelloAnswered struct {
	OK                HelloOK
	Config            Config
	InitialRedisEpoch string
}

// DirectiveReceived is the answer to a Report.
type DirectiveReceived struct{ Directive Directive }

// CallFailed says that the Hello or Report in flight was refused, lost or not answered.
type CallFailed struct {
	// Busy: the Hello was refused with ErrRegionBusy. The leader hears another daemon of the
	// region, so this one must not take the floor back: the other may have lent it.
	Busy bool
	// Wait, with Busy, is for the caller of Step: the daemon must not spend by the store yet; see
	// Leader.Vouches.
	Wait bool
	// Others, with Busy, are for the caller of Step, too: the other daemons of the region that the leader of Epoch knows of.
	Others []DaemonID
	Epoch  uint64
	// Config came with a refusal for being busy, so that the daemon knows which floor to serve. It
	// is nil if none came. Self is the region's index in it.
	Config            *Config
	Self              int
	InitialRedisEpoch string
}

// SharesApplied answers a whole ApplyShares.
type SharesApplied struct{ Results []ShareResult }

// ShareResult is the outcome of one ShareChange. Amounts are micro-tokens. Failed means that the
// store enforces something else than what was asked: the change may or may not have reached it,
// came too late, or the store has seen a later one.
type ShareResult struct {
	Key      KeyID
	Released int64
	Tokens   int64 // negative: the bucket owes them
	Amnesia  bool
	Failed   bool
	// Unenforced: the store was not asked, because neither the rules of this region nor the change
	// say what the limit is. The region admits nothing of the key now. A daemon that later learns
	// the rule would find no record of the share.
	Unenforced bool
	// InUse counts against the share. Due is for how long InUse can exceed the share, by the
	// store's clock. Label is the present window's number. Capacity and Tail are those of the limit
	// by which the store counts. All five are for counting limits; see limit.Applied.
	InUse    int64
	Due      time.Duration
	Label    int64
	Capacity int64
	Tail     time.Duration
}

// StoreEpoch names the store's contents: at the start, and when they have changed.
type StoreEpoch struct{ Epoch string }

// StoreReach tells in which hash slots the store cannot be asked, because their server does
// not answer; nil: in none. It is for stores of several servers. The set must not change
// after the event.
type StoreReach struct{ Unreached *hashslot.Set }

// StoreLost says that a record of a hot key was missing from the store.
type StoreLost struct{}

// ClockStopped says that the clock of Step's instants may have stopped, or was set back. A lease
// that it measured may have ended at the leader.
type ClockStopped struct{}

// RulesReplaced says that other rules are in force in this region. The limits that the region knows
// of keys may be older, and so may tokens on their way here: none of those are counted.
type RulesReplaced struct {
	Rules RulesState
	// Same reports whether every key of a rule has the limit that it had by the rules of before. Nil:
	// not known of any rule.
	Same func(rule uint32) bool
}

// RegionTick lets time pass.
type RegionTick struct{}

func (HelloAnswered) regionEvent()     {}
func (DirectiveReceived) regionEvent() {}
func (CallFailed) regionEvent()        {}
func (SharesApplied) regionEvent()     {}
func (StoreEpoch) regionEvent()        {}
func (StoreReach) regionEvent()        {}
func (StoreLost) regionEvent()         {}
func (ClockStopped) regionEvent()      {}
func (RulesReplaced) regionEvent()     {}
func (RegionTick) regionEvent()        {}

// RegionEffect is something that the caller of Region.Step must do.
type RegionEffect interface{ regionEffect() }

// SendHello asks to send a Hello; HelloAnswered or CallFailed answers it.
type SendHello struct{ Hello Hello }

// SendReport asks to send a Report; DirectiveReceived or CallFailed answers it.
type SendReport struct{ Report Report }

// ApplyShares asks to apply changes in the store; SharesApplied answers it. A directive's changes
// come in parts. The next part follows the answer to the previous one.
type ApplyShares struct {
	Changes []ShareChange
	// Follows: this is not the first part of its directive. The caller gives checks their turn in
	// the store between two parts.
	Follows bool
	// Heard asks to mark in the store that a daemon of this region is heard, even if there are no
	// changes, so that no other daemon takes the floor back. It is set with every renewal of the
	// lease, and with any directive if the last mark was MarkEvery ago. If only the mark fails, the
	// directive still counts: without its store the region admits next to nothing.
	Heard bool
}

// ShareChange is one share to apply in the store. If the store has seen its generation and the
// limit is a counting limit, the change asks what is in use now.
type ShareChange struct {
	Key KeyID
	// Before is the right until now.
	Before Right
	Gen    Gen
	Share  Share
	// Grant is the amount of tokens that comes with the share, in micro-tokens.
	Grant int64
	// From is as in Action.
	From int64
	// Cold ends the key's share: the record becomes a cold one.
	Cold bool
	// Limit is zero if neither this region nor the leader knows it.
	Limit KeyLimit
}

func (SendHello) regionEffect()   {}
func (SendReport) regionEffect()  {}
func (ApplyShares) regionEffect() {}
