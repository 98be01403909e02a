package prefetch

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// Life is how long a chunk is valid, counted from before the call that borrowed it. What a daemon
// that dies does not return is out of use for no longer.
const Life = 100 * time.Millisecond

// patience is the pause after a renewal that brought nothing. Meanwhile checks ask the store
// themselves.
const patience = Life / 8

// Finding is what a daemon can say of a cost without its store.
type Finding uint8

// The findings. The zero value is the cautious one.
const (
	// Ask: nothing, so the store must be asked.
	Ask Finding = iota
	// Holds: the chunk holds the cost.
	Holds
	// Denied: the store would deny it.
	Denied
)

// Key is the state of one limit's key in one daemon: how much of the key's tokens it has, how fast
// they are used, and the store's latest answer. The zero value knows nothing. It is not safe for
// concurrent use. Times are of the daemon's boot clock.
//
// Several calls of a key may be in flight at once. Each takes along a part of what the store counts
// as this daemon's (see Checkout and Renew), so that no two of them return or keep the same tokens.
type Key struct {
	meter meter
	reply lastReply

	// left may be spent up to end, unless the chunk was ended. It can be returned until the store's
	// clock shows until.
	left  limit.Tokens
	live  bool
	end   budget.Instant
	until int64
	// out is what the store counts as this daemon's, without what calls in flight took along.
	// carried is what those calls return.
	out, carried limit.Tokens
	// size is what was left after the latest grant. used is when tokens were last spent. again is
	// when a renewal last brought nothing.
	size        limit.Tokens
	used, again budget.Instant
	// calls is the number of calls in flight. renewing: one of them is a renewal. wanting: one of
	// them asks for a chunk.
	calls             int
	renewing, wanting bool
	// turn counts the events that end chunks, drops those that make them void, and forgets those
	// that discard only denials.
	turn, drops, forgets uint32

	admitted, denied limit.Tokens // not yet reported to the state machine
	lost             int64
}

// CountCheck counts a check of the key. It comes first, whether the daemon or the store decides the
// check.
func (k *Key) CountCheck(cost limit.Tokens, now budget.Instant) { k.meter.see(cost, 1, now) }

// CountChecks is CountCheck for several checks of one cost, one or more, at one instant.
func (k *Key) CountChecks(cost limit.Tokens, times int64, now budget.Instant) {
	k.meter.see(cost, times, now)
}

// Busy reports whether chunks are worthwhile for the key.
func (k *Key) Busy(now budget.Instant) bool { return k.meter.busy(now) }

// Peek returns what can be said of a cost. It changes nothing: a check of several limits is charged
// only if all of them hold.
func (k *Key) Peek(cost limit.Tokens, now budget.Instant) Finding {
	switch {
	case k.left >= cost && k.spendable(now):
		return Holds
	case k.reply.denies(cost, k.left+k.carried, now):
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
	k.reply.refused = now
	k.denied = min(k.denied+cost, limit.MaxTokens)
}

// Known reports whether Outcome can describe the key: the store answered about it within Life.
func (k *Key) Known(now budget.Instant) bool { return k.reply.known && now.Sub(k.reply.sent) < Life }

// Outcome returns the present state of the key, for limit.Decide: the store's latest answer,
// carried on to now and rounded down, plus what is left of the chunk.
func (k *Key) Outcome(now budget.Instant) limit.Outcome { return k.reply.outcome(k.left, now) }

// Ends returns when the latest chunk ends, at this daemon.
func (k *Key) Ends() budget.Instant { return k.end }

// Left returns what is left of the chunk, spendable or not.
func (k *Key) Left() limit.Tokens { return k.left }

// TakeCounts returns what was decided here since its previous call, for budget.Region.Observe.
func (k *Key) TakeCounts() (admitted, denied limit.Tokens) {
	admitted, denied = k.admitted, k.denied
	k.admitted, k.denied = 0, 0
	return admitted, denied
}

// Due is what a daemon should do about a key without a check.
type Due uint8

// The values of Due.
const (
	Nothing Due = iota
	// Renewal: the chunk is nearly spent or nearly over, and the key is busy.
	Renewal
	// Return: what is left is not used, or may not be used any more.
	Return
)

// Due returns what a key needs. It forgets a chunk that ended so long ago that the store counts it
// as lost.
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

// Idle reports whether the key can be forgotten without loss.
func (k *Key) Idle(now budget.Instant) bool {
	return k.calls == 0 && k.admitted == 0 && k.denied == 0 && now.Sub(k.meter.lastChecked) >= Life &&
		(k.left == 0 || now.Sub(k.end) >= Life)
}

// lose counts an amount that was borrowed and never returned.
func (k *Key) lose(amount limit.Tokens) {
	if amount > 0 {
		k.lost++
	}
}

// TakeLost returns how often since its previous call borrowed tokens were neither spent nor
// returned before they ended.
func (k *Key) TakeLost() (times int64) {
	times, k.lost = k.lost, 0
	return times
}

// InTransit reports whether a call in flight may bring tokens here or return some. If a denial comes
// meanwhile, it is unknown whether that call caused it.
func (k *Key) InTransit() bool { return k.renewing || k.wanting || k.carried > 0 }

// Active reports whether the key needs attention: it has a chunk, unreported use, or a call in
// flight.
func (k *Key) Active() bool {
	return k.left != 0 || k.out != 0 || k.calls != 0 || k.admitted != 0 || k.denied != 0
}
