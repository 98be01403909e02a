package regional

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

const partsRules = `
rules:
  - id: r0
    enforcement: strict
    params: {capacity: 1000, refill_rate: 0.1}`

// opensWith gives the region, with its next session, shares of so many keys of rule r0.
func (l *leader) opensWith(keys int) {
	l.set(func() {
		l.opens = nil
		for i := range keys {
			hash := make([]byte, 16)
			binary.BigEndian.PutUint64(hash, uint64(i))
			l.counter++
			l.opens = append(l.opens, &aliquotv1.Action{
				Key: &aliquotv1.KeyId{Rule: 1, Hash: hash}, Gen: &aliquotv1.Generation{Epoch: l.epoch, Counter: l.counter},
				Share: &aliquotv1.Share{Rate: budget.Unit / 4, Burst: budget.Unit / 4},
			})
		}
	})
}

// TestASessionOpensWithManyShares: a new leader tells a region its share of 20,000 hot keys,
// which is more than a Redis does in the time that one call may take. The session opens all
// the same, and checks are decided meanwhile.
func TestASessionOpensWithManyShares(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	l := newLeader(t, partsRules)
	c := testConfig(l.address())
	c.Redis = startRedis(t).url()
	d, _ := startLive(t, c)
	l.set(func() { l.epoch, l.session, l.counter = 2, l.session+1, 0 })
	l.opensWith(keys)
	eventually(t, "a session with the new leader is open", func() bool {
		answer := post(t, d, `{"attributes":{"api_key":"one"}}`)
		if answer.Status != 200 {
			t.Fatalf("a check meanwhile: %+v", answer)
		}
		return d.auth.Session().Epoch == 2
	})
	if held := d.auth.Info().HotKeys; held != keys {
		t.Errorf("it holds %d keys, want %d", held, keys)
	}
}

// TestARegionThatIsHeardWithoutASessionIsNotReady: after 10 s, and until it has one again.
func TestARegionThatIsHeardWithoutASessionIsNotReady(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, partsRules)
		d, _ := startLive(t, testConfig(l.address()))
		l.set(func() {
			l.refuse = connect.NewError(connect.CodeFailedPrecondition, errors.New("not now"))
			l.session++
		})
		without := func() bool { return !strings.Contains(scrape(t, d), `aliquot_session_seconds_without{region="us"} 0`) }
		eventually(t, "its session is lost, and a coordinator has refused another", without)
		if r := d.readiness(); !r.Ready {
			t.Errorf("at once: %+v", r)
		}
		<-time.After(12 * time.Second) // a coordinator answers every second or so, and the time counts until then
		if r := d.readiness(); r.Ready || !strings.Contains(r.Reason, "the leader refuses this region") || !strings.Contains(r.Reason, "not now") {
			t.Errorf("12 s later: %+v", r)
		}
		l.set(func() { l.refuse = nil })
		eventually(t, "it is ready again", func() bool { return d.readiness().Ready && !without() })
	})
}

// TestARegionWhoseStoreIsDownIsReadyWithoutASession: no session opens without the store, and no other daemon of the
// region would do better. A balancer that left the region would take its limits away.
func TestARegionWhoseStoreIsDownIsReadyWithoutASession(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, partsRules)
		d, _ := startLive(t, testConfig(l.address()))
		l.set(func() {
			l.refuse = connect.NewError(connect.CodeFailedPrecondition, errors.New("not now"))
			l.session++
		})
		eventually(t, "it has had no session for long", func() bool { return !d.readiness().Ready })
		d.storeChanged(true, errors.New("no answer"))
		if r := d.readiness(); !r.Ready || !r.StoreReached || r.StoreAnswers {
			t.Errorf("the store does not answer: %+v", r)
		}
		d.storeChanged(false, nil)
		if r := d.readiness(); r.Ready || !r.StoreAnswers || !strings.Contains(r.Reason, "no session") {
			t.Errorf("the store answers again: %+v", r)
		}
	})
}
