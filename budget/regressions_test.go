package budget

import (
	"testing"
	"time"
)

// Faults of other systems that share one limit among several, each as a test. The behaviour of
// whole regions is tested in internal/sim/compare.

// ofThirds returns the configuration of three regions with equal floors.
func ofThirds() *Config {
	c := NewConfig([]string{"a", "b", "c"}, 10*time.Second, 20_000)
	return &c
}

// three returns an allocation of 300 requests, 100 a second, over three live regions that hold
// their floors.
func three(demands ...demandNow) allocation {
	a := allocation{Capacity: 300 * microToken, Rate: 100 * microToken, Avail: Share{Unit, Unit}}
	for i, part := range Split([]int64{1, 1, 1}) {
		floor := Share{part, part}
		a.Regions = append(a.Regions, claim{
			Now: floor, Floor: floor, Demand: demands[i],
			Keep: ofThirds().ConnectedFloor(floor, KeyLimit{Capacity: a.Capacity}),
		})
	}
	return a
}

// wanting returns a demand that has been the same for long, in percent of the limit.
func wanting(percent int64) demandNow {
	d := percent * Unit / 100
	return demandNow{Known: true, Fast: d, Slow: d, FastAdmitted: d, SlowAdmitted: d}
}

// TiKV PD 9605: the client that consumed most got the least.
func TestTheHeaviestConsumerDoesNotGetTheLeast(t *testing.T) {
	for _, rejecting := range []bool{false, true} {
		d := []demandNow{wanting(90), wanting(40), wanting(10)}
		d[0].Rejecting = rejecting
		out := allocate(three(d...))
		if out[0].Rate < out[1].Rate || out[1].Rate < out[2].Rate {
			t.Errorf("rejecting %v: demands of 90, 40 and 10 %% get %v", rejecting, out)
		}
	}
}

// TiKV PD 11148: an average that was not set yet was read as no demand at all.
func TestAnUnsetAverageIsNoZeroDemand(t *testing.T) {
	a := three(demandNow{}, wanting(100), wanting(100))
	a.Regions[1].Demand.Rejecting = true
	if out := allocate(a); out[0].Rate < a.Regions[0].Floor.Rate-3 {
		t.Errorf("a region nobody has measured is cut from %d to %d", a.Regions[0].Floor.Rate, out[0].Rate)
	}
}

// TiKV PD 11240: a fraction that was rounded to 0 stopped a client.
func TestNoLiveShareRoundsToNothing(t *testing.T) {
	weights := []int64{1}
	for range 63 {
		weights = append(weights, MaxWeight)
	}
	a := allocation{Capacity: 1_000_000 * microToken, Rate: microToken, Avail: Share{Unit, Unit}}
	for _, part := range Split(weights) {
		floor := Share{part, part}
		if part == 0 {
			t.Fatal("a floor of weight 1 beside 63 of 1000 rounds to 0")
		}
		a.Regions = append(a.Regions, claim{Now: floor, Floor: floor, Keep: ofThirds().ConnectedFloor(floor, KeyLimit{Capacity: a.Capacity}), Demand: wanting(1)})
	}
	for i, s := range allocate(a) {
		if Scale(a.Capacity, s.Burst) < microToken {
			t.Errorf("region %d of weight %d gets %v: not one request", i, weights[i], s)
		}
	}
}

// TiKV PD 11211: every client got the same part, whatever it asked for.
func TestTheSplitSeesTheDemand(t *testing.T) {
	if out := allocate(three(wanting(80), wanting(15), wanting(0))); out[0].Rate < Unit*80/100 || out[2].Rate > Unit/50 {
		t.Errorf("demands of 80, 15 and 0 %% get %v", out)
	}
}

// Of a limit of ten over three regions an idle region keeps one request, not two.
func TestAnIdleRegionKeepsOneRequest(t *testing.T) {
	a := three(wanting(100), wanting(0), wanting(0))
	a.Capacity = 10 * microToken
	for i := range a.Regions {
		a.Regions[i].Keep = ofThirds().ConnectedFloor(a.Regions[i].Floor, KeyLimit{Capacity: a.Capacity, Placement: PlacementSplit})
	}
	for i, s := range allocate(a)[1:] {
		if got := Scale(a.Capacity, s.Burst); got >= 2*microToken {
			t.Errorf("idle region %d keeps %d micro-tokens", i+1, got)
		}
	}
}

// CockroachDB's design notes: a request that was sent twice was debited twice.
func TestAReportSentTwiceCountsOnce(t *testing.T) {
	w := newWorld(t, 2)
	w.elect()
	w.load = []int64{3, 0}
	w.run(3 * time.Second)
	r := w.regions[0]
	rep := Report{
		Region: 0, Epoch: r.session.epoch, Session: r.session.id, Seq: r.session.seq + 1, Ack: r.session.ack,
		Keys: []KeyReport{{Key: w.key, Gen: r.hot[w.key].gen, Share: r.hot[w.key].share, Limit: w.limit,
			Admitted: 1e9, Offered: 1e9, Released: 50 * microToken}},
	}
	key := w.leader.keys[w.key]
	if w.leader.regions[0].waiting {
		w.leader.directive(0, false, w.now)
		rep.Ack, rep.Seq = w.leader.regions[0].seq, w.leader.regions[0].seq+1
	}
	before := key.pool
	w.leader.report(rep, w.now)
	once, offered := key.pool, key.regions[0].demand.windowOffered
	if once == before {
		t.Fatal("the report was not taken at all")
	}
	for range 3 {
		out := w.leader.report(rep, w.now)
		if len(out) != 1 || key.pool != once || key.regions[0].demand.windowOffered != offered {
			t.Fatalf("the same report again: %v, pool %d, then %d", out, once, key.pool)
		}
	}
}
