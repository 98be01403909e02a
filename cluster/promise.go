package cluster

import "time"

// promiseRelease is how long a promise outlives the last sight of its set. Long
// enough that gossip has carried a change of mind to all who count on the promise;
// short enough that a node replaced before the first boot does not block it for ever.
const promiseRelease = 30 * time.Second

// promise is the set that a node agreed to bootstrap with. It gossips one at a time
// and begins with no other, so two sets that share a node cannot both begin while it
// stands. The zero value promises nothing.
type promise struct {
	view string
	seen time.Time // when the set was last complete
}

// hold makes p agree with the promise: the first complete set is promised, and any
// other is neither gossiped nor begun until the promise is released.
func (b *promise) hold(p *bootPlan, now time.Time) {
	if b.view != "" && b.view != p.view && now.Sub(b.seen) > promiseRelease {
		*b = promise{}
	}
	if b.view == "" {
		b.view = p.view
	}
	if b.view != p.view {
		p.view, p.complete, p.bootstrap = b.view, false, false
		return
	}
	b.seen = now
}
