package authority

import (
	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
)

// Refund tells the state machine what a settlement may give back. The caller calls it before it sends
// the settlement: a request that takes these tokens again may be reported before the store's answer
// arrives.
func (a *Authority) Refund(charges []charge.Charge, used []limit.Tokens) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range charges {
		if back := charges[i].Cost - used[i]; back > 0 && !charges[i].Independent() {
			a.region.Refund(charges[i].Key, int64(back))
			if _, told := a.region.Reports(charges[i].Key); !told {
				a.unreported.refund(charges[i].Key, int64(back))
			}
		}
	}
}

// Adjusted records the result of a settlement: the tokens for the pool, and the tokens that the
// keys have now.
func (a *Authority) Adjusted(charges []charge.Charge, adjusted []limit.Adjusted) {
	var seen []charge.Observation
	for i := range charges {
		a.Local.Forget(charges[i].Key)
	}
	a.mu.Lock()
	for i, out := range adjusted {
		c := &charges[i]
		if c.Independent() {
			continue
		}
		if out.Spare > 0 {
			a.region.Release(c.Key, c.Right.Gen, int64(out.Spare))
		}
		seen = append(seen, charge.Observation{Key: c.Key, Lost: out.Amnesia, Usage: budget.Usage{
			Rules: c.Rules, Limit: c.KeyLimit(), Admitted: true, Tokens: int64(max(0, out.Tokens)),
			FloorCap: int64(c.FloorCap), ColdCap: int64(c.ColdCap),
		}})
	}
	a.mu.Unlock()
	a.Observe(seen)
}
