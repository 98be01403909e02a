package authority

import (
	"aliquot/budget"
	"aliquot/limit"
	"aliquot/regional/internal/charge"
)

// Refund tells the state machine what a settlement may give back. It must be called before the
// store is asked, because a request that takes these tokens again may be reported before the
// store's answer arrives.
func (a *Authority) Refund(asks []charge.Charge, used []limit.Tokens) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range asks {
		if back := asks[i].Cost - used[i]; back > 0 && !asks[i].Independent() {
			a.region.Refund(asks[i].Key, int64(back))
			if !a.region.Reports(asks[i].Key) {
				a.unreported.refund(asks[i].Key, int64(back))
			}
		}
	}
}

// Adjusted records the result of a settlement: the tokens for the pool, and the tokens that the
// keys have now.
func (a *Authority) Adjusted(asks []charge.Charge, adjusted []limit.Adjusted) {
	var seen []charge.Observation
	for i := range asks {
		a.Local.Forget(asks[i].Key)
	}
	a.mu.Lock()
	for i, out := range adjusted {
		ask := &asks[i]
		if ask.Independent() {
			continue
		}
		if out.Spare > 0 {
			a.region.Release(ask.Key, ask.Right.Gen, int64(out.Spare))
		}
		seen = append(seen, charge.Observation{Key: ask.Key, Lost: out.Amnesia, Usage: budget.Usage{
			Rules: ask.Rules, Limit: ask.KeyLimit(), Admitted: true, Tokens: int64(out.Tokens),
			FloorCap: int64(ask.FloorCap), ColdCap: int64(ask.ColdCap),
		}})
	}
	a.mu.Unlock()
	a.Observe(seen)
}
