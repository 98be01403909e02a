package regional

import (
	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// maxUnreported bounds the keys of a daemon without a session that its Hellos tell of.
const maxUnreported = 1000

// unreported is what a daemon admits while it has no session, so that no report tells of it. Its
// next Hello does, for the leader's watch over promises. The leader knows only of its own answers
// when they were, so counting begins with one. What a lost answer or one key too many leaves out
// is not counted. The zero value counts nothing. It is not safe for concurrent use.
type unreported struct {
	since uint64 // nonce of the Hello whose answer came last; 0: nothing is counted
	keys  map[budget.KeyID]*budget.KeyReport
}

// countFrom forgets what was counted, and counts from the answer to a Hello with a nonce on; 0
// ends counting.
func (u *unreported) countFrom(nonce uint64) { u.since, u.keys = nonce, nil }

// admit counts what was admitted of a key.
func (u *unreported) admit(k budget.KeyID, usage budget.Usage) {
	if r := u.of(k); r != nil {
		r.Limit, r.Admitted = usage.Limit, r.Admitted+usage.Cost
	}
}

// refund counts what may be given back of a key.
func (u *unreported) refund(k budget.KeyID, amount int64) {
	if r := u.of(k); r != nil {
		r.Refunded += amount
	}
}

func (u *unreported) of(k budget.KeyID) *budget.KeyReport {
	if u.since == 0 {
		return nil
	}
	r := u.keys[k]
	if r == nil && len(u.keys) < maxUnreported {
		if u.keys == nil {
			u.keys = map[budget.KeyID]*budget.KeyReport{}
		}
		r = &budget.KeyReport{Key: k}
		u.keys[k] = r
	}
	return r
}

// tell adds what was counted to a Hello.
func (u *unreported) tell(h *aliquotv1.HelloRequest) {
	h.SpentSince = u.since
	for _, k := range u.keys {
		h.Spent = append(h.Spent, &aliquotv1.KeyReport{
			Key: keyOut(k.Key), Limit: limitOut(k.Limit), AdmittedMicro: k.Admitted, RefundedMicro: k.Refunded,
		})
	}
}

// tellUnreported adds to a Hello what was admitted without a session.
func (a *authority) tellUnreported(h *aliquotv1.HelloRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unreported.tell(h)
}

// countUnreported counts what is admitted without a session from the answer to a Hello on; 0: there
// is a session.
func (a *authority) countUnreported(nonce uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unreported.countFrom(nonce)
}
