package budget

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// fields lists, for every struct of a state machine's state, the fields that state_*.go knows.
var fields = []struct {
	of    any
	names string
}{
	{Leader{}, "cfg ledger epoch counter session start fenced anyFenced regions keys found order dirty creates creating maxHot held cooling refused over committing began verifying verifyFrom nextSweep rules newest ruleTail swept changes delayed urgent claims stats divide"},
	{leaderRegion{}, "open session incarnation seq adoptedAt sentAt ackedSentAt acked live leaseEnd leaseOver coolFrom lastReport pace rules renewedAt waiting opening waitSince tSend hello helloAt outbox unreached kept unchanged cold markedAt daemons"},
	{regionDaemons{}, "session storeless alone knows known claimant claimedAt"},
	{knownDaemon{}, "id heard"},
	{Standing{}, "Daemon Storeless Alone Others"},
	{leaderKey{}, "id at shares limit tail delayed fencedUseOver pool regions dirty settled over tailed unweighed cooling used credit moved home homeSince short shrunk rules since"},
	{keyRegion{}, "sent gen acked pending next grant granted cold outlasted inUse useReported lost label labelTail shrinks released tokens used demand planned homeUntil"},
	{FloorSteps{}, "done began held fill tail"},
	{demand{}, "admitted offered since last used gap known rejecting over meanOffered meanAdmitted window windowOffered windowAdmitted slow slowAdmitted"},
	{planned{}, "slow admitted active"},
	{create{}, "region report rules"},
	{refused{}, "create at"},
	{changes{}, "due silent reach ended"},
	{commit{}, "plan began grows creates"},
	{growth{}, "key region from share grant"},
	{Region{}, "self cfg incarnation storeEpoch initialEpoch unreached blind leaseEnd liveSince lastDirective marked floorVersion floorOpened floorSince highestEpoch session helloNonce helloEpoch helloFails nextHello inFlight applying hot candidates asking asked watermark reportable urgent rules newRules coldAcks outlasting part"},
	{session{}, "open epoch id seq ack tSend lastSent"},
	{applying{}, "hello seq renew tSend began keys left rest useChecks void oldRules noGrants watermark"},
	{hotKey{}, "gen share limit admitted offered released reportedReleased refunded toldAdmitted toldRefunded granted tokens used gap rejecting served asked reportedRejecting queued mustAck lastReport inUse checkUseAt outlasting label labelTail unenforced"},
	{candidate{}, "key gone limit admitted offered tokens rejecting lastUsed lastReport"},
	{Ledger{}, "Config Epoch entries"},
	{Config{}, "Lease LeaseWait LeaseNext RhoPPM RhoRising Version Regions"},
	{RegionConfig{}, "Name Weight Joined Fenced Floor Told Low FloorVersion InitialRedisEpoch DeclaredAtBootstrap"},
	{Share{}, "Rate Burst"},
	{KeyID{}, "Rule Hash"},
	{KeyLimit{}, "Capacity Rate RateFrac Tail Placement Algorithm"},
	{Gen{}, "Epoch Counter"},
	{Hello{}, "Region Incarnation RedisEpoch Nonce Rules Held Unreached Standing"},
	{Held{}, "Key Gen Share Limit"},
	{HelloOK{}, "Region Epoch Session Nonce Watermark Actions"},
	{Report{}, "Region Epoch Session Seq TSend Ack Rules Pace Keys Unreached Opening Contents Standing"},
	{KeyReport{}, "Key Gen Share Admitted Offered Released Tokens Limit Rejecting Idle Gap Cold InUse Label Refunded"},
	{Directive{}, "Region Epoch Session Seq TSend Renew Actions Others"},
	{Action{}, "Key Gen Share Granted Cold From Limit"},
	{Plan{}, "Epoch Changes InitialRedisEpochs"},
	{Entry{}, "Key Shares"},
	{InitialRedisEpoch{}, "Region RedisEpoch"},
}

// The checker compares states by their canonical form. A field that is missing from the form would
// make it take two states for one.
func TestCanonicalFormKnowsEveryField(t *testing.T) {
	for _, f := range fields {
		typ := reflect.TypeOf(f.of)
		known := strings.Fields(f.names)
		have := map[string]bool{}
		for i := range typ.NumField() {
			have[typ.Field(i).Name] = true
		}
		for _, name := range known {
			if !have[name] {
				t.Errorf("%s has no field %s any more: take it out of this table", typ, name)
			}
			delete(have, name)
		}
		for name := range have {
			t.Errorf("%s has a new field, %s. In budget/state_*.go: let Clone copy it, if it is a pointer, map or slice that is changed in place; "+
				"let AppendState write it, if what happens later can depend on it (times as Age or Left, counters as a name), or say there why it cannot matter. "+
				"Then add it to this table", typ, name)
		}
	}
}

// shared finds memory that two states have in common, by path.
func shared(a, b reflect.Value, path string, found *[]string) {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return
		}
		if a.Pointer() == b.Pointer() {
			*found = append(*found, path)
			return
		}
		shared(a.Elem(), b.Elem(), path, found)
	case reflect.Map:
		if a.IsNil() || b.IsNil() {
			return
		}
		if a.Pointer() == b.Pointer() {
			*found = append(*found, path)
			return
		}
		for _, k := range a.MapKeys() {
			if v := b.MapIndex(k); v.IsValid() {
				shared(a.MapIndex(k), v, path+"[]", found)
			}
		}
	case reflect.Slice:
		if a.Cap() > 0 && b.Cap() > 0 && a.Pointer() == b.Pointer() {
			*found = append(*found, path)
			return
		}
		for i := range min(a.Len(), b.Len()) {
			shared(a.Index(i), b.Index(i), path+"[]", found)
		}
	case reflect.Struct:
		for i := range a.NumField() {
			shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name, found)
		}
	}
}

// immutable reports which memory clones may share, because it is replaced and never changed.
func immutable(path string) bool {
	for _, end := range []string{".Regions", ".entries[]", ".shares", ".Shares", ".Actions", ".Held", ".hello", ".committing", ".unreached", ".knows", ".Others"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// Clones share no memory that is changed in place, and have the form of the original, at any time
// of a run with growths, a cut, a new leader and a return to cold.
func TestClonesAreWholeAndApart(t *testing.T) {
	w := newWorld(t, 3)
	w.elect()
	compare := func() {
		a, b := Canon{Demand: true, Lapses: true}, Canon{Demand: true, Lapses: true}
		check := func(what string, x, y any) {
			if fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("%s at %v: the clone's form is another", what, w.now)
			}
			var found []string
			shared(reflect.ValueOf(x).Elem(), reflect.ValueOf(y).Elem(), "", &found)
			for _, path := range found {
				if !immutable(path) {
					t.Fatalf("%s at %v: a clone shares %s", what, w.now, path)
				}
			}
			a.Reset()
			b.Reset()
		}
		leader := w.leader.Clone()
		w.leader.AppendState(&a, w.now)
		leader.AppendState(&b, w.now)
		check("leader", w.leader, leader)
		w.leader = leader // the run continues with clones
		for i, r := range w.regions {
			c := r.Clone()
			r.AppendState(&a, w.now)
			c.AppendState(&b, w.now)
			check("region", r, c)
			w.regions[i] = c
		}
		ledger := w.ledger.Clone()
		w.ledger.AppendState(&a)
		ledger.AppendState(&b)
		check("ledger", w.ledger, ledger)
		w.ledger = ledger
	}
	live := func(d time.Duration) {
		for range d / (5 * tick) {
			w.run(5 * tick)
			compare()
		}
	}
	live(2 * time.Second)
	w.load[0] = 2
	live(5 * time.Second)
	w.cut[1] = true
	live(25 * time.Second)
	w.cut[1], w.load[2] = false, 2
	w.elect()
	live(10 * time.Second)
	w.load = make([]int64, 3)
	live(30 * time.Second)
	if w.ledger.Len() != 0 || w.got == 0 {
		t.Fatalf("the life was not what it should be: %d hot keys, %d admitted", w.ledger.Len(), w.got)
	}
}

// The original does not see what a clone does.
func TestOriginalsDoNotSeeTheirClones(t *testing.T) {
	w := newWorld(t, 2)
	w.elect()
	w.load[0] = 2
	w.run(3 * time.Second)
	var before, after Canon
	w.leader.AppendState(&before, w.now)
	w.regions[0].AppendState(&before, w.now)
	leader, region := w.leader, w.regions[0]
	w.leader, w.regions[0], w.regions[1] = leader.Clone(), region.Clone(), w.regions[1].Clone()
	now := w.now
	w.run(10 * time.Second)
	leader.AppendState(&after, now)
	region.AppendState(&after, now)
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Fatal("the original has changed")
	}
}

// A division from outside is followed, and safe.
func TestDivideBy(t *testing.T) {
	w := newWorld(t, 3)
	w.elect()
	w.leader.DivideBy(func(_ KeyID, avail Share, claims []Claim) []Share {
		out := make([]Share, len(claims))
		for i, c := range claims {
			out[i] = Share{}
			if i == 2 {
				out[i] = avail
			}
			if c.Silent {
				out[i] = c.Now
			}
		}
		return out
	})
	w.load = []int64{1, 1, 1}
	w.run(8 * time.Second)
	if got := w.rate(2); got != 1000 {
		t.Fatalf("the region that the division favours has %d per mille", got)
	}
}
