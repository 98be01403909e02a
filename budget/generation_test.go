package budget

import (
	"slices"
	"testing"
	"time"
)

// TestSharesOfOneMessageHaveOneGeneration: messages use up generations, not keys. A leader with ten
// thousand busy keys uses no more of them than one with a single key.
func TestSharesOfOneMessageHaveOneGeneration(t *testing.T) {
	w := started(t, 3)
	before := w.leader.counter
	held := make([]Held, 100)
	for i := range held {
		held[i] = Held{Key: KeyID{Rule: 9, Hash: [16]byte{byte(i)}}, Share: w.ledger.Config.Regions[1].Floor}
	}
	out := w.leader.Step(HelloReceived{Hello{Region: 1, Nonce: 77, Incarnation: w.regions[1].incarnation, RedisEpoch: w.regions[1].storeEpoch, Held: held}}, w.now)
	out = append(out, w.leader.Step(Verified{}, w.now)...)
	for _, effect := range out {
		if welcome, is := effect.(Welcome); is {
			gens := map[Gen]bool{welcome.OK.Watermark: true}
			for _, a := range welcome.OK.Actions {
				gens[a.Gen] = true
			}
			if len(welcome.OK.Actions) != len(held) || len(gens) != 1 || w.leader.counter != before+1 {
				t.Errorf("%d actions of %d generations, the leader's counter went from %d to %d", len(welcome.OK.Actions), len(gens), before, w.leader.counter)
			}
			return
		}
	}
	t.Fatal("no welcome")
}

// TestAKeyThatIsHotAgainHasTheLaterGeneration: one directive may end an old share of a key and
// bring a new one. The store takes the later generation.
func TestAKeyThatIsHotAgainHasTheLaterGeneration(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("the key is hot", 2*time.Second, func() bool { return w.ledger.Len() == 1 })
	r := &w.leader.regions[1]
	r.waiting, r.waitSince = true, w.now
	w.leader.sendCold(1, w.key)
	w.leader.queueAction(1, w.leader.keys[w.key], Share{Rate: 5, Burst: 5})
	d := w.leader.directive(1, false, w.now)
	if len(d.Actions) != 2 || !d.Actions[0].Cold || !d.Actions[0].Gen.Before(d.Actions[1].Gen) {
		t.Errorf("%+v", d.Actions)
	}
}

// TestEpochSpent: a new epoch is due at half of the generations, and everything continues through
// it.
func TestEpochSpent(t *testing.T) {
	w := started(t, 3)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	w.leader.SpendGenerations(1<<31 - 1 - w.leader.counter)
	if w.leader.EpochSpent() {
		t.Fatal("half of the generations are left")
	}
	w.load = []int64{0, 10, 0}
	w.runUntil("shares have moved", 2*time.Second, func() bool { return w.rate(1) >= 950 })
	if !w.leader.EpochSpent() {
		t.Fatal("more than half of the generations are used, and no new epoch is due")
	}
	w.elect()
	for range 600 {
		w.run(tick)
		if w.rate(1) < 940 {
			t.Fatalf("b's share dipped to %d per mille", w.rate(1))
		}
	}
	if w.leader.EpochSpent() {
		t.Error("the new epoch is spent as well")
	}
}

// TestRegionRefusesImpossibleGenerations: a generation that no store could keep ends the
// session, not the daemon.
func TestRegionRefusesImpossibleGenerations(t *testing.T) {
	for name, gen := range map[string]Gen{
		"counter": {Epoch: 1, Counter: 1 << 32}, "epoch": {Epoch: 1 << 21, Counter: 1},
	} {
		w := started(t, 3)
		r := w.regions[1]
		action := Action{Key: w.key, Gen: gen, Share: Share{Rate: 1, Burst: 1}}
		for r.inFlight != reportCall {
			w.run(time.Millisecond)
		}
		out := r.Step(DirectiveReceived{Directive{
			Region: 1, Epoch: r.session.epoch, Session: r.session.id, Seq: r.session.seq, TSend: r.session.tSend, Actions: []Action{action},
		}}, w.now)
		if slices.ContainsFunc(out, isApply) || r.session.open {
			t.Fatalf("%s: a directive with %+v: %v, session open: %v", name, gen, out, r.session.open)
		}
		later := w.now.Add(time.Minute)
		for r.inFlight != helloCall {
			r.Step(RegionTick{}, later)
			later = later.Add(time.Second)
		}
		for part, ok := range map[string]HelloOK{
			"action":    {Region: 1, Epoch: 1, Session: 9, Nonce: r.helloNonce, Actions: []Action{action}},
			"watermark": {Region: 1, Epoch: 1, Session: 9, Nonce: r.helloNonce, Watermark: gen},
			"session":   {Region: 1, Epoch: 1 << 21, Session: 9, Nonce: r.helloNonce},
		} {
			r.inFlight = helloCall
			out := r.Step(HelloAnswered{OK: ok, Config: w.ledger.Config}, later)
			if slices.ContainsFunc(out, isApply) || r.session.open {
				t.Errorf("%s: a welcome with it as the %s: %v", name, part, out)
			}
		}
	}
}

func isApply(e RegionEffect) bool {
	_, is := e.(ApplyShares)
	return is
}
