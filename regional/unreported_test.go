package regional

import (
	"testing"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// TestASecondDaemonTellsWhatItAdmits: with its next Hello, for the watch over promises, since the
// answer to the one before.
func TestASecondDaemonTellsWhatItAdmits(t *testing.T) {
	l := newLeader(t, ruled(rules.Strict))
	l.set(func() { l.exclusive = true })
	c := withRedis(t, l)
	startKept(t, c)
	second, _ := start(t, copied(t, c, l.address()))
	eventually(t, "the second may spend", func() bool { return answers(t, second, "busy") > 2 && second.others.spends() })
	had := int64(burst(t, second, "cold")) * 1e6
	told := func() (sum int64) {
		l.set(func() {
			for _, h := range l.seconds {
				for _, k := range h.GetSpent() {
					if since := h.GetSpentSince(); since == 0 || since >= h.GetNonce() || k.GetLimit().GetCapacityMicro() == 0 {
						t.Errorf("it tells %v since %d", k, h.GetSpentSince())
					}
					sum += k.GetAdmittedMicro()
				}
			}
		})
		return sum
	}
	eventually(t, "what it admitted is told", func() bool { return told() > 0 })
	if got := told(); got > had {
		t.Errorf("it tells of %d, and admitted %d", got, had)
	}
}

// TestUnreported: nothing is counted without an answer to begin with, nor of more keys than a Hello
// tells of, and an answer begins the count again.
func TestUnreported(t *testing.T) {
	var u unreported
	key := func(i int) budget.KeyID { return budget.KeyID{Rule: uint32(i)} }
	spend := func(keys int) (out *aliquotv1.HelloRequest) {
		for i := range keys {
			u.admit(key(i), budget.Usage{Limit: budget.KeyLimit{Capacity: 7}, Cost: 3})
			u.refund(key(i), 1)
		}
		out = &aliquotv1.HelloRequest{}
		u.tell(out)
		return out
	}
	if h := spend(1); len(h.GetSpent()) != 0 || h.GetSpentSince() != 0 {
		t.Errorf("before an answer: %v", h)
	}
	u.countFrom(4)
	h := spend(maxUnreported + 5)
	if len(h.GetSpent()) != maxUnreported || h.GetSpentSince() != 4 {
		t.Errorf("%d keys since %d", len(h.GetSpent()), h.GetSpentSince())
	}
	for _, k := range h.GetSpent() {
		if k.GetAdmittedMicro() != 3 || k.GetRefundedMicro() != 1 || k.GetLimit().GetCapacityMicro() != 7 {
			t.Errorf("%v", k)
		}
	}
	u.countFrom(5)
	if h := spend(0); len(h.GetSpent()) != 0 || h.GetSpentSince() != 5 {
		t.Errorf("after the next answer: %v", h)
	}
}
