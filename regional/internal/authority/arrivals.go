package authority

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
)

// maxBorrowers bounds the checks that wait for a share, for all keys together. Each keeps a caller
// waiting, so this bounds the cost of a flood of them.
const maxBorrowers = 4096

// The time that a borrow takes. The report with the demand waits for the answer to the report
// before it, which the leader holds for a tenth of a second. Then come up to two round trips and
// two commits. The third round trip, and the rest of baseBorrowWait, are for a busy machine.
const (
	baseBorrowWait = 300 * time.Millisecond
	maxBorrowWait  = 500 * time.Millisecond
)

// BorrowWait returns how long a check waits if its rule sets no time.
func (a *Authority) BorrowWait() time.Duration {
	return min(baseBorrowWait+3*time.Duration(a.roundTrip.Load()), maxBorrowWait)
}

// ObserveRoundTrip records how long the answer to a report took. held reports that the leader had
// nothing to send and kept the answer for a while. The fastest answer counts, and is forgotten
// gradually.
func (a *Authority) ObserveRoundTrip(took time.Duration, held bool) {
	if held {
		took -= budget.AnswerHold
	}
	if known := time.Duration(a.roundTrip.Load()); known > 0 {
		took = min(took, known+known/64+time.Millisecond)
	}
	a.roundTrip.Store(int64(max(took, 1)))
}

// RoundedOff returns the most tokens of a capacity that rounding keeps from all regions. Each region
// may lack a unit of the share, a millionth of what it released, and one of what it was granted.
func (a *Authority) RoundedOff(capacity limit.Tokens) limit.Tokens {
	a.mu.Lock()
	defer a.mu.Unlock()
	return limit.Tokens(len(a.region.Config().Regions)) * (capacity/budget.Unit + 3)
}

// BeginRest adds a check that waits for what its bucket earns. It returns false if too many checks wait
// already. EndRest ends the wait.
func (a *Authority) BeginRest() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.borrow.waiting >= maxBorrowers {
		return false
	}
	a.borrow.waiting++
	return true
}

// EndRest ends a wait that BeginRest began.
func (a *Authority) EndRest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.borrow.waiting--
}

// Arrival is a part of a limit that checks wait for.
type Arrival struct {
	key     budget.KeyID
	limit   budget.KeyLimit
	held    budget.Share  // the share held meanwhile
	Done    chan struct{} // closed when more than that is held
	waiters int64
}

// borrowers are the checks that wait for shares. The authority's mu guards them.
type borrowers struct {
	arrivals map[budget.KeyID]*Arrival
	waiting  int
	// vain has the keys of which nothing came in time.
	vain map[budget.KeyID]vainWaits
	// moved has when shares last changed, for keys of which another part may be on its way.
	moved map[budget.KeyID]budget.Instant
}

// vainWaits describes a key of which nothing came while checks waited. The leader knows of the
// demand, and sends what becomes free. One wait in vain says little, because the share may just have
// been late. After the second one no check of the key waits for minVainPause, and after each later
// one for twice as long as before. The zero value is a key that no check has waited for.
type vainWaits struct {
	ended budget.Instant // when the last wait in vain ended
	until budget.Instant // no check waits before this instant
	next  time.Duration  // how long no check waits after the next wait in vain
}

const (
	minVainPause, maxVainPause = 250 * time.Millisecond, 2 * time.Second
	// vainWaitsKept is how long after such a pause the waits in vain still count.
	vainWaitsKept = 10 * time.Second
	// maxVainKeys bounds the keys whose waits in vain are remembered.
	maxVainKeys = 4096
	// maxMovedKeys bounds the keys whose changes of share are remembered.
	maxMovedKeys = 4096
)

// Await adds a denied group to those that wait for shares. lent is false if no share of one of its
// denied keys can come, because the limit is used up. arrivals is nil if too many groups wait
// already. The group does not wait for a share that has come since the denial. begun reports that a
// share has come already, so that others may follow.
func (a *Authority) Await(g *charge.Transaction, begun bool) (arrivals []*Arrival, lent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	arrivals = []*Arrival{}
	now := a.Now()
	for i := range g.Charges {
		c := &g.Charges[i]
		l := c.KeyLimit()
		if g.Out[i].Decision.Allowed {
			continue
		}
		if !a.mayArriveLocked(c, l, begun, now) {
			a.borrow.remove(arrivals)
			return nil, false
		}
		if grown(c.Right.Effective(), a.region.Right(c.Key, l, now).Effective()) {
			continue
		}
		at := a.borrow.add(c.Key, l, c.Right.Effective())
		if at == nil {
			a.borrow.remove(arrivals)
			return nil, true
		}
		arrivals = append(arrivals, at)
	}
	return arrivals, true
}

// mayArriveLocked reports whether more of a key than a charge's right holds may soon come from another
// region. begun reports that the check has got a part. A part that came just now, for another check
// or for none, counts too, because the next one is on its way. The caller holds mu.
func (a *Authority) mayArriveLocked(c *charge.Charge, l budget.KeyLimit, begun bool, now budget.Instant) bool {
	begun = begun || a.borrow.movedSince(c.Key, now.Add(-a.BorrowWait()))
	return a.region.Elsewhere(c.Right, l, begun, c.Elastic()) && now >= a.borrow.vain[c.Key].until
}

// grown reports whether after holds more of a limit's burst or rate than before.
func grown(before, after budget.Share) bool { return !after.Within(before) }

// Leave removes a group from those that wait. vain is how long it has waited if nothing came, and 0
// otherwise.
func (a *Authority) Leave(arrivals []*Arrival, vain time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if vain > 0 {
		now := a.Now()
		for _, at := range arrivals {
			select {
			case <-at.Done:
			default:
				a.borrow.addVainWait(at.key, now.Add(-vain), now)
			}
		}
	}
	a.borrow.remove(arrivals)
}

// ClearVainWaits records that a group was admitted with the shares that it waited for.
func (a *Authority) ClearVainWaits(g *charge.Transaction) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range g.Charges {
		delete(a.borrow.vain, g.Charges[i].Key)
	}
}

// wakeArrivalsLocked wakes the checks whose share has come. The caller holds mu.
func (a *Authority) wakeArrivalsLocked(changed []budget.ShareResult, now budget.Instant) {
	for i := range changed {
		key := changed[i].Key
		a.borrow.addMove(key, now)
		at := a.borrow.arrivals[key]
		if at != nil && grown(at.held, a.region.Right(key, at.limit, now).Effective()) {
			close(at.Done)
			delete(a.borrow.arrivals, key) // a check that leaves does not find it any more
		}
	}
}

// add adds a check that waits for a key. It returns nil if too many checks wait for all keys, or more
// for this key than its burst can serve.
func (b *borrowers) add(key budget.KeyID, l budget.KeyLimit, held budget.Share) *Arrival {
	at := b.arrivals[key]
	if at == nil {
		at = &Arrival{key: key, limit: l, held: held, Done: make(chan struct{})}
	}
	if b.waiting >= maxBorrowers || at.waiters >= l.Capacity/int64(limit.Token) {
		return nil
	}
	at.waiters++
	b.waiting++
	b.arrivals[key] = at
	return at
}

func (b *borrowers) remove(arrivals []*Arrival) {
	for _, at := range arrivals {
		at.waiters--
		b.waiting--
		if at.waiters == 0 && b.arrivals[at.key] == at {
			delete(b.arrivals, at.key)
		}
	}
}

// addVainWait records that a wait for a key, which began at began, ends now without a share. Checks
// that wait together count as one wait. If there are too many keys, one of them is forgotten.
func (b *borrowers) addVainWait(key budget.KeyID, began, now budget.Instant) {
	was, known := b.vain[key]
	switch {
	case known && began < was.ended:
		return
	case known && began < was.until.Add(vainWaitsKept):
		next := max(was.next, minVainPause)
		b.vain[key] = vainWaits{ended: now, until: now.Add(next), next: min(2*next, maxVainPause)}
		return
	case len(b.vain) >= maxVainKeys && !known:
		for k := range b.vain {
			delete(b.vain, k)
			break
		}
	}
	b.vain[key] = vainWaits{ended: now, until: now}
}

// addMove records that a key's share changes now. If there are too many keys, those whose next part
// cannot come any more are forgotten, and one other if there is none.
func (b *borrowers) addMove(key budget.KeyID, now budget.Instant) {
	if _, known := b.moved[key]; !known && len(b.moved) >= maxMovedKeys {
		for k, at := range b.moved {
			if at <= now.Add(-maxBorrowWait) {
				delete(b.moved, k)
			}
		}
		for k := range b.moved {
			if len(b.moved) < maxMovedKeys {
				break
			}
			delete(b.moved, k)
		}
	}
	b.moved[key] = now
}

// movedSince reports whether a key's share has changed after an instant.
func (b *borrowers) movedSince(key budget.KeyID, since budget.Instant) bool {
	at, known := b.moved[key]
	return known && at > since
}

// Waiting returns how many checks wait for a share, and of how many keys.
func (a *Authority) Waiting() (checks, keys int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.borrow.waiting, len(a.borrow.arrivals)
}
