package authority

import (
	"time"

	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/storeguard"
)

// useKept is how long use is remembered that is no faster than the limit earns.
const useKept = time.Minute

// The state machine observes a decision within budget.ObservedWithin: after a call to the store, or at the janitor's
// intervals for what memory has decided. This does not compile if they take longer.
const _ = uint(budget.ObservedWithin - 2*storeguard.Deadline - charge.ObserveInterval - charge.JanitorInterval)

// slightPart is the part of a key's floor that may be in use and not be remembered.
const slightPart = 64

// matters reports whether use that no session tells is to be remembered: something was admitted, of a hot key or of a cold
// one of which the store says that more than a slight part is in use. The leader can find no limit exceeded by less. Most
// keys of a flood are used once, so they take no place of a key that is used. What was decided without the store matters.
func matters(u *budget.Usage, hot bool) bool {
	return u.Admitted && (hot || u.ColdCap == 0 || u.ColdCap-u.Tokens > u.FloorCap/slightPart)
}

// unreported counts what a daemon admits and no session's counters contain: of keys that are not hot,
// without a session, by an emergency limit, or before the rules were known. The next report of the
// key tells the leader's audit of it, or the next Hello of a daemon without a session. The leader
// knows only the times of its own answers, so an age is how long before the latest answer a count
// began. Counts that belong to a lost answer, to keys beyond maxUnreported, or to slight use are never
// told. The zero value is empty. It is not safe for concurrent use.
type unreported struct {
	since    uint64         // nonce of the Hello that was answered last without a session; 0: none
	answered budget.Instant // when that answer came
	uses     recentUses
	told     recentUses // in Hellos since that answer, and not yet in an answered one
}

// spentUse is what was admitted of a key, and given back, since an instant. Amounts are micro-tokens.
type spentUse struct {
	limit              budget.KeyLimit
	admitted, refunded int64
	began              budget.Instant
	// replaced is when the rules were replaced since it began; 0: they were not.
	replaced budget.Instant
}

// admit counts a cost that was admitted of a key, not before began.
func (u *unreported) admit(k budget.KeyID, l budget.KeyLimit, cost int64, began budget.Instant) {
	if k.Rule&policy.IndependentBit != 0 || cost == 0 {
		return
	}
	use := u.uses.find(k)
	if use == nil {
		use = u.uses.add(k)
	} else {
		*use = use.under(l, began)
	}
	if use.admitted == 0 {
		*use = spentUse{limit: l, refunded: use.refunded, began: began}
	}
	use.admitted += cost
}

// under returns the part of a use that still counts under a limit at now. A use older than useKept
// counts no more if the limit has earned it back meanwhile. What an earlier limit may have admitted
// above the present one does not count.
func (s spentUse) under(l budget.KeyLimit, now budget.Instant) spentUse {
	if s.limit != l {
		if s.replaced == 0 {
			return spentUse{}
		}
		before := s.replaced.Sub(s.began)
		s.admitted -= max(0, s.limit.Capacity-l.Capacity) + refilled(s.limit, before+before/20) // more than any rho
		s.limit, s.replaced = l, 0
	}
	if age := now.Sub(s.began); s.admitted <= 0 || age > useKept && s.admitted <= refilled(l, age) {
		return spentUse{}
	}
	return s
}

// refilled returns what a limit earns in a time, in micro-tokens.
func refilled(l budget.KeyLimit, d time.Duration) int64 {
	return int64(min((float64(l.Rate)+float64(l.RateFrac)/1e6)*d.Seconds(), float64(limit.MaxExact)))
}

// refund counts an amount of a key that may be given back.
func (u *unreported) refund(k budget.KeyID, amount int64) {
	if use := u.uses.find(k); use != nil {
		use.refunded += amount
	}
}

// rulesReplaced notes that limits may be others from now on.
func (u *unreported) rulesReplaced(now budget.Instant) {
	for k, use := range u.uses.all() {
		if use.replaced == 0 {
			use.replaced = now
		} else {
			u.uses.delete(k) // after two changes it is not known when each limit held
		}
	}
}

// tell returns the counts for a Hello of a daemon without a session, and the nonce of the Hello whose
// answer their ages count from; 0: the leader has given no such answer, so nothing is told.
func (u *unreported) tell() (since uint64, spent []budget.Spent) {
	if u.since == 0 {
		return 0, nil
	}
	for k, before := range u.told.all() {
		if use := u.uses.find(k); use != nil && use.limit == before.limit {
			before.admitted, before.refunded = before.admitted+use.admitted, before.refunded+use.refunded
			*use = *before
		} else if use == nil && u.uses.hasRoom(k) {
			*u.uses.add(k) = *before
		}
	}
	u.told, u.uses = u.uses, recentUses{}
	for k, use := range u.told.all() {
		spent = append(spent, use.spent(k, u.answered.Sub(use.began)))
	}
	return u.since, spent
}

// countFrom takes the answer to a Hello: the leader knows what the Hello told. From now on ages count
// from the answer to the Hello with this nonce; 0: a session was opened.
func (u *unreported) countFrom(nonce uint64, now budget.Instant) {
	u.since, u.answered, u.told = nonce, now, recentUses{}
}

// report returns the counts of the keys of a report, and forgets them.
func (u *unreported) report(keys []budget.KeyReport, now budget.Instant) (out []budget.Spent) {
	for i := range keys {
		if u.uses.len() == 0 {
			return out
		}
		k := &keys[i]
		use := u.uses.find(k.Key)
		if use == nil || k.Gen == (budget.Gen{}) || k.Cold || k.Limit.Capacity == 0 {
			continue
		}
		if told := use.under(k.Limit, now); told.admitted > 0 {
			out = append(out, told.spent(k.Key, now.Sub(told.began)))
		}
		u.uses.delete(k.Key)
	}
	return out
}

func (s spentUse) spent(k budget.KeyID, age time.Duration) budget.Spent {
	return budget.Spent{Key: k, Limit: s.limit, Admitted: s.admitted, Refunded: s.refunded, Age: age}
}

// TellUnreported returns what was admitted without a session, for a Hello. Ages count from the answer
// to the Hello with the nonce since; 0: nothing is told.
func (a *Authority) TellUnreported() (since uint64, spent []budget.Spent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unreported.tell()
}

// CountUnreported takes the answer to the Hello with this nonce. A nonce of 0 means that there is a
// session.
func (a *Authority) CountUnreported(nonce uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unreported.countFrom(nonce, a.Now())
}

// ReportUnreported returns what was admitted of the keys of a report beside its counters.
func (a *Authority) ReportUnreported(keys []budget.KeyReport) []budget.Spent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unreported.report(keys, a.Now())
}

// keepUnreportedLocked counts what no report told the session that has just ended. The caller holds mu.
func (a *Authority) keepUnreportedLocked() {
	room, now := maxUnreported, a.Now()
	for s := range a.region.Untold(now) {
		a.unreported.admit(s.Key, s.Limit, s.Admitted, now.Add(-s.Age-budget.ObservedWithin))
		a.unreported.refund(s.Key, s.Refunded)
		if room--; room == 0 {
			return
		}
	}
}

// maxEarly bounds the cost that counts of one client before the rules were known, in micro-tokens.
const maxEarly = 1 << 60

// AdmitEarly counts a cost that was admitted of a key so many times before the rules were known, the
// first time at first.
func (a *Authority) AdmitEarly(k budget.KeyID, l budget.KeyLimit, cost, times int64, first budget.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unreported.admit(k, l, cost*min(times, maxEarly/max(1, cost)), first.Add(-budget.ObservedWithin))
}
