package regional

import (
	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// maxUnreported caps the keys that the Hellos of a daemon without a session report.
const maxUnreported = 1000

// unreported counts what a daemon admits while it has no session, so that no report contains it.
// The next Hello does, for the leader's audit of promises. The leader knows only the times of its
// own answers, so counting begins with one of them. What belongs to a lost answer, or to keys
// beyond maxUnreported, is not counted. The zero value counts nothing. It is not safe for
// concurrent use.
type unreported struct {
	since uint64 // nonce of the Hello that was answered last; 0: nothing is counted
	keys  map[budget.KeyID]*budget.KeyReport
}

// countFrom drops the counts, and starts to count at the answer to the Hello with this nonce. A
// nonce of 0 stops counting.
func (u *unreported) countFrom(nonce uint64) { u.since, u.keys = nonce, nil }

// admit counts tokens that were admitted of a key.
func (u *unreported) admit(k budget.KeyID, usage budget.Usage) {
	if r := u.of(k); r != nil {
		r.Limit, r.Admitted = usage.Limit, r.Admitted+usage.Cost
	}
}

// refund counts tokens of a key that may be given back.
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

// tell adds the counts to a Hello.
func (u *unreported) tell(h *aliquotv1.HelloRequest) {
	h.SpentSince = u.since
	for _, k := range u.keys {
		h.Spent = append(h.Spent, &aliquotv1.KeyReport{
			Key: keyOut(k.Key), Limit: limitOut(k.Limit), AdmittedMicro: k.Admitted, RefundedMicro: k.Refunded,
		})
	}
}

// tellUnreported adds what was admitted without a session to a Hello.
func (a *authority) tellUnreported(h *aliquotv1.HelloRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unreported.tell(h)
}

// countUnreported starts to count what is admitted without a session, at the answer to the Hello
// with this nonce. A nonce of 0 means that there is a session.
func (a *authority) countUnreported(nonce uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unreported.countFrom(nonce)
}
