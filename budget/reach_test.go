package budget

import (
	"math/rand/v2"
	"testing"
	"time"
)

// twoBusyKeys returns a world in which region 0 has nearly all of two keys.
func twoBusyKeys(t *testing.T) (p *parted, lost, well KeyID) {
	p = newParted(t, 3, 4)
	lost, well = p.keys[0], p.keys[1]
	p.demand[0][lost], p.demand[0][well] = 10, 10
	p.within("a has both keys", 5*time.Second, func() bool {
		return p.allLive() && p.share(0, lost) >= 980 && p.share(0, well) >= 980
	})
	return p, lost, well
}

// staysLive lets time pass in which no region's lease ends.
func (p *parted) staysLive(d time.Duration) {
	p.t.Helper()
	for range d / tick {
		p.pass(tick)
		if !p.allLive() {
			p.t.Fatalf("a lease has ended at %v", p.now)
		}
	}
}

// When a part of a region's store is lost, the share of a key in it stays as it is. The shares of
// other keys move, keys that become hot are told later, and no session ends because of it.
func TestOnlyTheKeysThatAreOutOfReachStay(t *testing.T) {
	p, lost, well := twoBusyKeys(t)
	fresh := p.keys[2]
	p.lose(0, lost, fresh)
	p.name(0, lost, fresh)
	p.pass(time.Second)
	before, opened := p.share(0, lost), p.opened[0]
	p.demand[0], p.demand[1] = map[KeyID]int64{}, map[KeyID]int64{lost: 10, well: 10, fresh: 10}
	p.within("b has the key that is in reach", 3*time.Second, func() bool { return p.share(1, well) >= 950 })
	p.staysLive(40 * time.Second)
	if p.share(0, lost) != before {
		t.Errorf("the key that is out of reach went from %d to %d per mille", before, p.share(0, lost))
	}
	if p.share(1, fresh) < 640 {
		t.Errorf("b has %d per mille of a new key, all but the floor of who cannot be told of it", p.share(1, fresh))
	}
	p.demand[2][fresh] = 10
	p.within("b and c have as much each of what is not a's", 5*time.Second, func() bool {
		return p.share(1, fresh) >= 320 && p.share(2, fresh) >= 320
	})
	if p.opened[0] != opened {
		t.Errorf("%d sessions ended", p.opened[0]-opened)
	}
	p.demand[2] = map[KeyID]int64{}
	p.lose(0)
	p.name(0)
	p.within("b has all of them", 3*time.Second, func() bool {
		return p.share(1, lost) >= 950 && p.share(1, well) >= 950 && p.share(1, fresh) >= 950
	})
	if p.opened[0] != opened {
		t.Error("a session ended when the store was back")
	}
}

// A change that was in flight when a part of the store was lost ends one session. The next one
// opens without it, and no lease ends.
func TestAChangeThatFailsEndsOneSession(t *testing.T) {
	p, lost, well := twoBusyKeys(t)
	opened := p.opened[0]
	p.lose(0, lost)
	p.demand[0], p.demand[1] = map[KeyID]int64{}, map[KeyID]int64{lost: 10}
	p.within("the session ends", 3*time.Second, func() bool { return !p.regions[0].session.open })
	p.name(0, lost)
	p.within("a session is open again", time.Second, func() bool { return p.regions[0].session.open })
	p.demand[1][well] = 10
	p.staysLive(30 * time.Second)
	if p.opened[0] != opened+1 {
		t.Errorf("%d sessions ended, want 1", p.opened[0]-opened)
	}
	if p.share(1, well) < 950 || p.share(1, lost) > 20 {
		t.Errorf("b has %d per mille of the key in reach and %d of the one that is not", p.share(1, well), p.share(1, lost))
	}
	if l := p.ledger.Shares(lost); l[0].Rate < Unit/10*9 {
		t.Errorf("the liability of what nobody acknowledged came down to %v", l[0])
	}
	p.elect()
	p.within("the next leader knows what is out of reach, too", 5*time.Second, func() bool { return p.regions[0].session.open })
	p.staysLive(20 * time.Second)
	p.lose(0)
	p.name(0)
	p.within("b has what it asks for", 5*time.Second, func() bool { return p.share(1, lost) >= 950 })
}

// A key of which some region cannot be told does not cool down before it can; other keys do.
func TestAKeyThatIsOutOfReachStaysHot(t *testing.T) {
	p, lost, well := twoBusyKeys(t)
	p.lose(1, lost)
	p.name(1, lost)
	p.demand[0] = map[KeyID]int64{}
	p.within("the key in reach is cold", 40*time.Second, func() bool { return p.ledger.Shares(well) == nil })
	p.staysLive(20 * time.Second)
	if p.ledger.Shares(lost) == nil || p.share(0, lost) < 980 || !p.regions[2].Right(lost, p.limit, p.now).Hot {
		t.Fatal("a key is on its way to cold that a region could not be told of")
	}
	p.lose(1)
	p.name(1)
	p.within("the other one is cold, too", 40*time.Second, func() bool { return p.ledger.Len() == 0 })
}

// A key that is returning to cold stays hot if some region can no longer be told of it.
func TestAKeyThatFallsOutOfReachStaysHot(t *testing.T) {
	p, lost, _ := twoBusyKeys(t)
	p.demand[0] = map[KeyID]int64{}
	p.far = []time.Duration{10 * tick, 0, 0} // what a gives up first is delayed
	p.within("it is on its way to the floors", 40*time.Second, func() bool { return p.leader.keys[lost].cooling == toFloors })
	p.lose(1, lost)
	p.name(1, lost)
	p.pass(5 * time.Second)
	if key := p.leader.keys[lost]; key == nil || key.cooling != hotKeyState {
		t.Fatal("it is not hot any more")
	}
	p.demand[0][lost] = 10
	p.within("it is hot where it is used", 3*time.Second, func() bool { return p.regions[0].Right(lost, p.limit, p.now).Hot })
	p.lose(1)
	p.name(1)
	p.within("a has it again", 3*time.Second, func() bool { return p.share(0, lost) >= 980 })
}

// A region that holds more than its floor of a key that is no longer in the ledger is told so. A
// session opens only when the region believes in no more than the floor.
func TestAKeyOfARuleThatWentIsNotLeftOutOfReach(t *testing.T) {
	p, lost, _ := twoBusyKeys(t)
	p.lose(0, lost)
	p.name(0, lost)
	p.pass(time.Second)
	p.demand[0] = map[KeyID]int64{}
	p.ledger.DropRules(func(uint32) bool { return false })
	p.elect()
	p.within("it has a session", 5*time.Second, func() bool { return p.regions[0].session.open })
	if p.share(0, lost) > 333 {
		t.Fatalf("it has a session and %d per mille of a key that is cold", p.share(0, lost))
	}
	p.lose(0)
	p.name(0)
	p.elect()
	p.within("it holds nothing", 5*time.Second, func() bool {
		return p.regions[0].session.open && !p.regions[0].Right(lost, p.limit, p.now).Hot
	})
}

// A daemon that does not know of a lent share has to be told it before its session opens, even out
// of reach: otherwise it would take the floor.
func TestWhatWasLentIsNotForgottenOutOfReach(t *testing.T) {
	p, lost, _ := twoBusyKeys(t)
	p.lose(1, lost)
	p.regions[1] = p.another(1, 9)
	p.name(1, lost)
	p.pass(15 * time.Second)
	if p.regions[1].session.open || p.enforced(1, lost).Rate > Unit/50 {
		t.Fatalf("it has a session, or may let %v through of a key that was lent", p.enforced(1, lost))
	}
	p.lose(1)
	p.name(1)
	p.within("it has a session", 2*time.Second, func() bool { return p.regions[1].session.open })
}

// Regions may name any slots at any time, rightly or not: no more than the whole is ever enforced
// or in the ledger. Meanwhile changes fail that were made or not, messages are delayed, regions are
// cut off, daemons restart and leaders change. Once everything is in reach again, every region gets
// what it asks for.
func TestNamingIsNeverTrusted(t *testing.T) {
	stuck := 0
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := newParted(t, 3, 5)
		p.reached = func() bool { return random.IntN(2) == 0 }
		p.far = []time.Duration{0, 2 * tick, 5 * tick}
		some := func() (keys []KeyID) {
			for _, k := range p.keys {
				if random.IntN(3) == 0 {
					keys = append(keys, k)
				}
			}
			return keys
		}
		for range 60 {
			i := random.IntN(3)
			switch random.IntN(10) {
			case 0, 1, 2:
				lost := some()
				p.lose(i, lost...)
				if random.IntN(2) == 0 {
					p.name(i, lost...)
				}
			case 3, 4:
				p.name(i, some()...)
			case 5:
				p.name(i)
			case 6:
				p.cut[i] = !p.cut[i]
			case 7:
				if random.IntN(3) == 0 {
					p.mail = nil // messages in flight are lost with the leader
					p.elect()
				}
			case 8:
				if random.IntN(3) == 0 {
					p.regions[i] = p.another(i, 100+random.Uint64N(1<<40))
				}
			default:
				p.demand[i] = map[KeyID]int64{p.keys[random.IntN(len(p.keys))]: random.Int64N(10), p.keys[random.IntN(len(p.keys))]: 5}
			}
			p.pass(time.Duration(random.IntN(1500)) * time.Millisecond)
			for j := range p.leader.regions {
				stuck += len(p.leader.regions[j].kept)
			}
		}
		p.mail = nil
		p.far, p.cut = nil, make([]bool, 3)
		for i := range p.regions {
			p.lose(i)
			p.name(i)
			p.demand[i] = map[KeyID]int64{}
		}
		p.elect()
		p.pass(30 * time.Second)
		for n, k := range p.keys {
			p.demand[n%3][k] = 5
		}
		p.within("everybody has what it asks for", 20*time.Second, func() bool {
			for n, k := range p.keys {
				if p.share(n%3, k) < 950 {
					return false
				}
			}
			return p.allLive()
		})
	}
	if stuck == 0 {
		t.Error("nothing was ever kept: this test is to see it")
	}
}
