package regional

import (
	"aliquot/budget"
	"aliquot/limit"
)

// refund tells the state machine what a settlement may give back. It must be called before the
// store is asked, because a request that takes these tokens again may be reported before the
// store's answer arrives.
func (a *authority) refund(asks []ask, used []limit.Tokens) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range asks {
		if back := asks[i].cost - used[i]; back > 0 && !asks[i].alone() {
			a.region.Refund(asks[i].key, int64(back))
			if !a.region.Reports(asks[i].key) {
				a.unreported.refund(asks[i].key, int64(back))
			}
		}
	}
}

// adjusted records the result of a settlement: the tokens for the pool, and the tokens that the
// keys have now.
func (a *authority) adjusted(asks []ask, adjusted []limit.Adjusted) {
	var seen []observation
	for i := range asks {
		a.local.forget(asks[i].key)
	}
	a.mu.Lock()
	for i, out := range adjusted {
		ask := &asks[i]
		if ask.alone() {
			continue
		}
		if out.Spare > 0 {
			a.region.Release(ask.key, ask.right.Gen, int64(out.Spare))
		}
		seen = append(seen, observation{key: ask.key, lost: out.Amnesia, usage: budget.Usage{
			Limit: ask.keyLimit(), Admitted: true, Tokens: int64(out.Tokens),
			FloorCap: int64(ask.floorCap), ColdCap: int64(ask.coldCap),
		}})
	}
	a.mu.Unlock()
	a.observe(seen)
}
