package budget

import (
	"time"

	"aliquot/internal/hashslot"
)

// RegionEvent is something that happened to a region; see Region.Step.
type RegionEvent interface{ regionEvent() }

// HelloAnswered is the answer to a Hello, with the configuration it carried.
type HelloAnswered struct {
	OK                HelloOK
	Config            Config
	InitialRedisEpoch string
}

// DirectiveReceived is the answer to a Report.
type DirectiveReceived struct{ Directive Directive }

// CallFailed: the Hello or Report in flight was refused, lost or not answered.
type CallFailed struct {
	// Busy: the Hello was refused with ErrRegionBusy. Another daemon of the
	// region is being heard, so this one must not take the floor back: the other
	// may have lent it.
	Busy bool
	// Wait, with Busy, is for the shell: the daemon must not spend by the store yet; see
	// Leader.Vouches.
	Wait bool
	// Config came with a refusal for being busy: what to serve the floor by. Nil if
	// none did. Self is the region's index in it.
	Config            *Config
	Self              int
	InitialRedisEpoch string
}

// SharesApplied answers ApplyShares, whole.
type SharesApplied struct{ Results []ShareResult }

// ShareResult is the outcome of one ShareChange; amounts are micro-tokens. Failed
// means that the change may or may not have reached the store, or came too late, or
// that the store has seen a later one: what it enforces is not what was asked.
type ShareResult struct {
	Key      KeyID
	Released int64
	Tokens   int64
	Amnesia  bool
	Failed   bool
	// Unenforced: the store was not asked, for neither the rules here nor the change tell
	// what the limit is. The region admits nothing of it now; whoever learns the rule would
	// find no record of the share.
	Unenforced bool
	// InUse counts against the share, Due is for how long that can be more than the
	// share allows, by the store's clock, and Label is the present window's number (for
	// a limit that counts); see limit.Applied.
	InUse int64
	Due   time.Duration
	Label int64
}

// StoreEpoch tells the identity of the store's contents: at the start, and when
// it has changed.
type StoreEpoch struct{ Epoch string }

// StoreReach tells in which hash slots the store cannot be asked, because their server does
// not answer; nil: in none. It is for stores of several servers. The set must not change
// after the event.
type StoreReach struct{ Unreached *hashslot.Set }

// StoreLost: a record of a hot key was missing from the store.
type StoreLost struct{}

// ClockStopped: the clock by which Step is called may have stood still, or was set back. A
// lease that it measured may be over at the leader.
type ClockStopped struct{}

// RulesReplaced tells that other rules are in force here. What limits the region knows
// of keys may be older, and so are tokens on their way: none are counted.
type RulesReplaced struct{}

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

// RegionEffect is something the shell is to do; see Region.Step.
type RegionEffect interface{ regionEffect() }

// SendHello sends a Hello; answered by HelloAnswered or CallFailed.
type SendHello struct{ Hello Hello }

// SendReport sends a Report; answered by DirectiveReceived or CallFailed.
type SendReport struct{ Report Report }

// ApplyShares applies changes in the store; answered by SharesApplied. A directive's changes
// come in parts, one when the one before was answered.
type ApplyShares struct {
	Changes []ShareChange
	// Follows: it is not the first part of its directive. The shell lets checks have the store
	// between two.
	Follows bool
	// Heard: the store is told, also without any change, that a daemon of this region
	// is heard, so that no other one takes the floor back: with every renewal of the
	// lease, and with any directive if the last time was MarkEvery ago. If only that
	// fails, the directive counts all the same: without its store the region admits
	// next to nothing.
	Heard bool
}

// ShareChange is one share to be applied in the store. One of a generation that the
// store has seen, of a limit that counts, asks what is in use now.
type ShareChange struct {
	Key KeyID
	// Before is the right until now.
	Before Right
	Gen    Gen
	Share  Share
	// Grant is the amount of tokens that comes with it, micro-tokens.
	Grant int64
	// From as in Action.
	From int64
	// Cold ends the key's share: the record becomes a cold one.
	Cold bool
	// Limit is zero if neither this region nor the leader knows it.
	Limit KeyLimit
}

func (SendHello) regionEffect()   {}
func (SendReport) regionEffect()  {}
func (ApplyShares) regionEffect() {}
