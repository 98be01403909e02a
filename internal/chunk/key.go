package chunk

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// Life is how long a chunk is good for, from before the call that took it: what a
// daemon that dies does not bring back is out of use for no longer.
const Life = 100 * time.Millisecond

// patience is how long a renewal that brought nothing is not tried again: meanwhile the
// checks ask the store themselves.
const patience = Life / 8

// Finding is what a daemon can say of a cost without its store.
type Finding uint8

// The findings. The zero value is the cautious one.
const (
	// Ask: nothing; the store is to be asked.
	Ask Finding = iota
	// Holds: the chunk holds the cost.
	Holds
	// Denied: the store would deny it.
	Denied
)

// Key is one limit's key in one daemon: what it has of the key's tokens, how fast they
// go, and what the store last said. The zero value knows nothing. It is not safe for
// concurrent use. Times are of the daemon's boot clock.
//
// Several calls of a key may be under way at once. Each takes a part of what the store
// counts as this daemon's along (see Bring and Renew), so that nothing is brought back,
// or kept, by two of them.
type Key struct {
	meter meter
	said  said

	// left may be spent up to end, if the chunk has not been ended; until the store's
	// clock shows until it can be brought back.
	left  limit.Tokens
	live  bool
	end   budget.Instant
	until int64
	// out is what the store counts as this daemon's, without what calls under way took
	// along; carried is what those bring back.
	out, carried limit.Tokens
	// size is what was left after the latest grant, and used when something was last
	// spent. again is when a renewal last brought nothing.
	size        limit.Tokens
	used, again budget.Instant
	// calls are under way; a renewal may be among them, and one that asks for a chunk.
	calls             int
	renewing, wanting bool
	// turn counts what ends chunks, drops those of it that void them, and forgets what ends
	// the memory of denials alone.
	turn, drops, forgets uint32

	admitted, denied limit.Tokens // and not told to the machine yet
	lost             int64
}

// Seen counts a check of the key; it comes first, whoever decides the check.
func (k *Key) Seen(cost limit.Tokens, now budget.Instant) { k.meter.see(cost, now) }

// Busy reports whether chunks are worth their while.
func (k *Key) Busy(now budget.Instant) bool { return k.meter.busy(now) }

// Look finds out what can be said of a cost. It changes nothing: a check of several
// limits is charged when all of them hold.
func (k *Key) Look(cost limit.Tokens, now budget.Instant) Finding {
	switch {
	case k.left >= cost && k.spendable(now):
		return Holds
	case k.said.denies(cost, k.left+k.carried, now):
		return Denied
	default:
		return Ask
	}
}

func (k *Key) spendable(now budget.Instant) bool { return k.live && now < k.end }

// Spend charges a cost that the chunk Holds at the same instant.
func (k *Key) Spend(cost limit.Tokens, now budget.Instant) {
	k.left -= cost
	k.used = now
	k.admitted = min(k.admitted+cost, limit.MaxTokens)
}

// Refuse counts a cost that was Denied at the same instant.
func (k *Key) Refuse(cost limit.Tokens, now budget.Instant) {
	k.said.refused = now
	k.denied = min(k.denied+cost, limit.MaxTokens)
}

// Known reports whether Outcome can tell of the key: the store said something of it
// within Life.
func (k *Key) Known(now budget.Instant) bool { return k.said.known && now.Sub(k.said.sent) < Life }

// Outcome is what there is, for limit.Decide: what the store said last, carried on to
// now, rounded down, and what is left of the chunk.
func (k *Key) Outcome(now budget.Instant) limit.Outcome { return k.said.outcome(k.left, now) }

// Left is what is left of the chunk, spendable or not.
func (k *Key) Left() limit.Tokens { return k.left }

// Tell takes what was decided here since the last time, for budget.Region.Observe.
func (k *Key) Tell() (admitted, denied limit.Tokens) {
	admitted, denied = k.admitted, k.denied
	k.admitted, k.denied = 0, 0
	return admitted, denied
}

// Due is what a daemon is to do about a key by itself.
type Due uint8

// What can be due.
const (
	Nothing Due = iota
	// Renewal: the chunk is nearly spent, or nearly over, and the key is busy.
	Renewal
	// Return: what is left is not used, or may not be any more.
	Return
)

// Due tells what a key needs. A chunk that ended so long ago that the store counts it as
// lost is forgotten.
func (k *Key) Due(now budget.Instant) Due {
	rest := k.end.Sub(now)
	switch {
	case k.left == 0 && k.out == 0 || k.renewing || k.wanting:
		return Nothing
	case rest < -Life:
		k.lose(k.left)
		k.left, k.out, k.live = 0, 0, false
		return Nothing
	case k.spendable(now) && k.Busy(now) && now.Sub(k.again) >= patience && (k.left < k.size/4 || rest < Life/3):
		return Renewal
	case k.left == 0:
		return Nothing
	case !k.spendable(now) || now.Sub(k.used) >= Life/2 || rest < Life/4:
		return Return
	default:
		return Nothing
	}
}

// Idle reports whether the key can be forgotten at no loss.
func (k *Key) Idle(now budget.Instant) bool {
	return k.calls == 0 && k.admitted == 0 && k.denied == 0 && now.Sub(k.meter.lastChecked) >= Life &&
		(k.left == 0 || now.Sub(k.end) >= Life)
}

// lose counts an amount that was borrowed and never came back.
func (k *Key) lose(amount limit.Tokens) {
	if amount > 0 {
		k.lost++
	}
}

// TellLost takes how often since the last time something that was borrowed was neither spent
// nor brought back before it ended.
func (k *Key) TellLost() (times int64) {
	times, k.lost = k.lost, 0
	return times
}

// Awaits reports whether a call is under way that may bring tokens here, or back: of a
// denial that comes meanwhile nobody knows whether it is due to that.
func (k *Key) Awaits() bool { return k.renewing || k.wanting || k.carried > 0 }

// Active reports whether there is something to look after: a chunk, use that was not
// told, or a call under way.
func (k *Key) Active() bool {
	return k.left != 0 || k.out != 0 || k.calls != 0 || k.admitted != 0 || k.denied != 0
}
