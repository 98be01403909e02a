package budget

import (
	"slices"
	"testing"
	"time"
)

// says lets a region's daemon report s of itself in every message.
func (w *world) says(i int, s Standing) {
	if w.standings == nil {
		w.standings = map[int]Standing{}
	}
	w.standings[i] = s
}

// helloOf sends a Hello of another daemon of a region, and returns whether it is refused for being
// busy.
func (w *world) helloOf(i int, incarnation uint64, s Standing) (busy bool) {
	w.t.Helper()
	out := w.leader.Step(HelloReceived{Hello{Region: i, Incarnation: incarnation, RedisEpoch: w.regions[i].storeEpoch, Nonce: 1, Standing: s}}, w.now)
	busy = slices.ContainsFunc(out, func(e LeaderEffect) bool {
		refused, ok := e.(Refuse)
		return ok && refused.Nonce == 1 && refused.Err == ErrRegionBusy
	})
	if !busy {
		return false
	}
	w.lead(slices.DeleteFunc(out, func(e LeaderEffect) bool { refused, ok := e.(Refuse); return ok && refused.Nonce == 1 }))
	return true
}

// lentTo returns a world in which region b has lent all but its connected floor to a, and reports
// the given standing.
func lentTo(t *testing.T, b Standing) *world {
	w := started(t, 3)
	w.says(1, b)
	w.load[0] = 10
	w.runUntil("a has the rate", 3*time.Second, func() bool { return w.rate(0) >= 980 })
	return w
}

// A region whose store does not take the mark counts as silent if another daemon of it is known.
// That daemon takes the floor back 2T(1+rho)^3 after the last mark, and every region has made room
// by then.
func TestARegionWithoutMarksIsSilent(t *testing.T) {
	w := lentTo(t, Standing{Daemon: 7, Others: []DaemonID{8}})
	w.says(1, Standing{Daemon: 7, Storeless: true, Others: []DaemonID{8}})
	marked, renewed := w.now, 0
	w.runUntil("a has made room", 11*time.Second, func() bool { return w.rate(0) <= 1000-333-6 })
	if took := w.now.Sub(marked); took > w.leader.cfg.leaseAtLeader()+time.Second {
		t.Errorf("that took %v", took)
	}
	w.runUntil("b's lease is over", w.leader.cfg.FloorAfter()-w.now.Sub(marked), func() bool {
		renewed = w.renewed[1]
		return w.regions[1].Phase(w.now) != Live
	})
	w.run(5 * time.Second)
	if w.renewed[1] != renewed {
		t.Error("it is renewed again")
	}
	if w.helloOf(1, 2, Standing{Daemon: 7, Storeless: true, Others: []DaemonID{8}}); w.leader.regions[1].open {
		t.Error("it has a session, without a store")
	}
	w.says(1, Standing{Daemon: 7, Others: []DaemonID{8}})
	w.runUntil("with its store b is live again", 5*time.Second, func() bool { return w.regions[1].Phase(w.now) == Live })
}

// The only daemon of a region loses nothing with its store.
func TestTheOnlyDaemonKeepsItsLeaseWithoutAStore(t *testing.T) {
	w := lentTo(t, Standing{Daemon: 7, Alone: true})
	w.says(1, Standing{Daemon: 7, Storeless: true, Alone: true})
	for range 1500 {
		w.run(tick)
		if w.regions[1].Phase(w.now) != Live || w.rate(0) < 980 {
			t.Fatalf("b is in phase %v, a has %d per mille", w.regions[1].Phase(w.now), w.rate(0))
		}
	}
}

// The session of a daemon without a store goes to one that has it, once the first admits nothing by
// its emergency limit.
func TestTheSessionGoesToTheDaemonWithTheStore(t *testing.T) {
	for _, c := range []struct {
		what   string
		first  Standing
		asks   Standing
		passes bool
	}{
		{"the first has its store", Standing{Daemon: 7}, Standing{Daemon: 8}, false},
		{"the first has no store", Standing{Daemon: 7, Storeless: true, Others: []DaemonID{8}}, Standing{Daemon: 8}, true},
		{"the first admits alone", Standing{Daemon: 7, Storeless: true, Alone: true}, Standing{Daemon: 8}, false},
		{"neither has it", Standing{Daemon: 7, Storeless: true, Others: []DaemonID{8}}, Standing{Daemon: 8, Storeless: true}, false},
		{"it is the same daemon", Standing{Daemon: 7, Storeless: true, Others: []DaemonID{8}}, Standing{Daemon: 7}, false},
		{"one of an earlier version asks", Standing{Daemon: 7, Storeless: true, Others: []DaemonID{8}}, Standing{}, false},
	} {
		w := lentTo(t, Standing{Daemon: 7})
		w.says(1, c.first)
		w.run(yieldAfter - time.Second)
		if !w.helloOf(1, 9, c.asks) {
			t.Errorf("%s: the session passes at once", c.what)
		}
		w.run(2 * time.Second)
		if passes := !w.helloOf(1, 9, c.asks); passes != c.passes {
			t.Errorf("%s: the session passes: %v", c.what, passes)
		}
	}
}

// A daemon that admits by its emergency limit keeps the region until it has heard of another one: that
// one gets no session while the first, which cannot see it in the store's list, may spend beside it.
func TestNoSessionBesideADaemonThatAdmitsWithoutItsStore(t *testing.T) {
	first, second := Standing{Daemon: 7, Storeless: true, Alone: true}, Standing{Daemon: 8}
	for _, c := range []struct {
		what string
		ends func(w *world)
	}{
		{"it has heard of the second", func(w *world) {
			w.helloOf(1, 1, Standing{Daemon: 7, Storeless: true, Others: []DaemonID{8}})
		}},
		{"it has stopped", func(w *world) { w.leader.Step(DaemonLeft{Region: 1, Daemon: 7}, w.now) }},
	} {
		w := newWorld(t, 2)
		w.cut[1] = true // its messages are those below
		w.elect()
		if w.helloOf(1, 1, first) {
			t.Errorf("%s: the first daemon is refused, and there is no other", c.what)
		}
		for range 3 {
			w.run(busyAfter - time.Second)
			if !w.helloOf(1, 2, second) {
				t.Fatalf("%s: the second daemon may have a session while the first admits without its store", c.what)
			}
			if told := w.leader.regions[1].daemons.daemonsExcept(7, w.now); !slices.Equal(told, []DaemonID{8}) {
				t.Fatalf("%s: the first is told of %v", c.what, told)
			}
			w.helloOf(1, 1, first)
		}
		if c.ends(w); w.helloOf(1, 2, second) {
			t.Errorf("%s: the second daemon gets no session", c.what)
		}
	}
}

// A leader tells the daemon with the session of all others that it hears, until they leave or were
// silent for an hour. It vouches for those that the daemon knows.
func TestDaemonsOfARegionAreTold(t *testing.T) {
	w := lentTo(t, Standing{Daemon: 7})
	told := func() []DaemonID { return w.leader.regions[1].daemons.others(w.now) }
	w.helloOf(1, 9, Standing{Daemon: 9})
	w.helloOf(1, 8, Standing{Daemon: 8})
	if got := told(); !slices.Equal(got, []DaemonID{8, 9}) {
		t.Errorf("told of %v", got)
	}
	if w.leader.Vouches(1, 8) {
		t.Error("the leader vouches for a daemon that the one with the session does not know of")
	}
	w.says(1, Standing{Daemon: 7, Others: []DaemonID{8}})
	w.run(time.Second)
	if !w.leader.Vouches(1, 8) || w.leader.Vouches(1, 9) || !w.leader.Vouches(1, 0) {
		t.Error("it knows of 8 now, not of 9; daemons of earlier versions are not waited for")
	}
	w.leader.Step(DaemonLeft{Region: 1, Daemon: 8}, w.now)
	if got := told(); !slices.Equal(got, []DaemonID{9}) {
		t.Errorf("8 has left, told of %v", got)
	}
	for id := range DaemonID(2 * MaxDaemons) {
		w.helloOf(1, 8, Standing{Daemon: 100 + id})
		w.run(tick)
	}
	if got := told(); len(got) > MaxDaemons || slices.Contains(got, 9) || !slices.Contains(got, 100+2*MaxDaemons-1) {
		t.Errorf("of very many it tells of %v", got)
	}
	w.run(5 * time.Second)
	if got := w.leader.regions[1].daemons.daemonsExcept(7, w.now.Add(ForgetDaemonAfter)); len(got) != 0 {
		t.Errorf("an hour later it tells of %v", got)
	}
}
