package entitlement_test

import (
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/limit"
)

// clock is a store's clock that shows the daemon's time in microseconds, and was found
// set forward at that time of its own; 0: never.
type clock struct{ leapt int64 }

func (clock) Until(e budget.Instant) int64 { return int64(e) / 1000 }
func (clock) Since(e budget.Instant) int64 { return int64(e) / 1000 }
func (c clock) Leapt() int64               { return c.leapt }

var (
	third  = budget.Share{Rate: budget.Unit / 3, Burst: budget.Unit / 3}
	bucket = limit.Limit{Capacity: 300 * limit.Token, Rate: limit.Rate{Micro: 100e6}}
	window = limit.Limit{Algorithm: limit.FixedWindow, Capacity: 300 * limit.Token, Window: time.Minute}
)

// daemon is one of three regions, of contents that began at 40 s.
func daemon(startedFull bool) entitlement.Daemon {
	c := budget.NewConfig([]string{"a", "b", "c"}, 10*time.Second, 20_000)
	return entitlement.Daemon{Region: 1, Config: c, Stamp: 7, Birth: 40e6, StartedFull: startedFull, Clock: clock{}}
}

func (v viewed) view(d entitlement.Daemon) limit.View {
	f := d.Frame(v.right, v.limit.Tail())
	return f.View(v.right, v.limit, v.elastic)
}

type viewed struct {
	right   budget.Right
	limit   limit.Limit
	elastic bool
}

// TestViewOfACutOffRegion: use lasts a tail longer than a lease, so the store waits that
// much longer for who was heard. Worked numbers: 21.224208 s, 120 s, and 1 s between two
// marks, each by the clocks that rho allows.
func TestViewOfACutOffRegion(t *testing.T) {
	right := budget.Right{Floor: third, Phase: budget.CutOff, Since: 90e9}
	of := viewed{right: right, limit: bucket}.view(daemon(true))
	counted := viewed{right: right, limit: window}.view(daemon(true))
	if of.Phase != limit.Floor || of.Since != 90e6 || of.Birth != 0 {
		t.Errorf("%+v", of)
	}
	longer := time.Duration(counted.HeardWait-of.HeardWait) * time.Microsecond
	if tail := window.Tail(); longer < tail+tail/50 || longer > tail+tail/20 {
		t.Errorf("heard for %v longer than for a bucket, its tail is %v", longer, tail)
	}
	if counted.Algorithm != limit.FixedWindow || counted.Window != 60e6 || counted.Floor.Cap < 99*limit.Token || counted.Floor.Cap > 100*limit.Token {
		t.Errorf("%+v", counted)
	}
}

// TestViewAfterAFlush: new contents do not tell who was heard before them. A daemon that
// does not know what is lent earns tokens from the floor's start on; rights are there at
// once.
func TestViewAfterAFlush(t *testing.T) {
	right := budget.Right{Floor: third, LimboFloor: budget.Share{}, Phase: budget.CutOff, Since: 45e9, Blind: true}
	for _, l := range []limit.Limit{bucket, window} {
		v := viewed{right: right, limit: l}.view(daemon(false))
		if want := 40e6 + float64(v.HeardWait); float64(v.Since) != want || !v.Blind || v.LimboFloor != (limit.Bucket{}) {
			t.Errorf("%v: the floor counts from %d on, want %.0f: %+v", l.Algorithm, v.Since, want, v)
		}
		want := int64(40e6)
		if !l.Algorithm.Counts() {
			want = v.Since
		}
		if v.Birth != want {
			t.Errorf("%v: born %d, want %d", l.Algorithm, v.Birth, want)
		}
	}
}

// TestViewAfterALeapOfTheClock: after the store's clock was set forward its mark of who was
// heard looks old, so a daemon that is cut off trusts its floor only when the daemon that was heard
// until then has no lease any more. Until then it shares with that daemon.
func TestViewAfterALeapOfTheClock(t *testing.T) {
	right := budget.Right{Floor: third, Phase: budget.CutOff, Since: 45e9, Hot: true, Gen: budget.Gen{Epoch: 1, Counter: 1}}
	for _, l := range []limit.Limit{bucket, window} {
		d := daemon(true)
		d.Clock = clock{leapt: 200e6}
		v := viewed{right: right, limit: l}.view(d)
		v.Heard = 46e6 // by the clock of before
		want := 200e6 + v.HeardWait
		_, before, _ := limit.Settle(limit.Record{}, v, want-1)
		_, after, _ := limit.Settle(limit.Record{}, v, want)
		if v.Since != want || before.Cap != 0 {
			t.Errorf("%v: the floor counts from %d on, want %d, and before it %+v", l.Algorithm, v.Since, want, before)
		}
		if !l.Algorithm.Counts() && after.Cap != v.Floor.Cap {
			t.Errorf("then %+v of %+v", after, v.Floor)
		}
	}
}

// TestARecordOutlastsABlindLimbo: a daemon that does not know what is lent spends nothing
// in limbo, and what it writes is kept until the floor that others go by would be full: a
// record that went earlier would be a full bucket for them.
func TestARecordOutlastsABlindLimbo(t *testing.T) {
	right := budget.Right{Told: third, Phase: budget.Limbo, Blind: true}
	v := viewed{right: right, limit: bucket}.view(daemon(false))
	record, in, _ := limit.Settle(limit.Record{Stamp: 7, At: 99e6, Tokens: 50 * limit.Token}, v, 100e6)
	if record.Tokens != 0 || in.Cap != 0 {
		t.Errorf("in limbo it holds %d of %d", record.Tokens, in.Cap)
	}
	full := limit.TTL(0, entitlement.Bucket(bucket, third))
	if kept := record.Keep(&v); kept != full || full < 3000 {
		t.Errorf("it is kept for %d ms, and full after %d", kept, full)
	}
}

// TestViewOfAnElasticLimit: only a bucket, and only of a region that has a floor, holds
// the whole burst.
func TestViewOfAnElasticLimit(t *testing.T) {
	right := budget.Right{Floor: third, Phase: budget.Live, Until: 95e9}
	if v := (viewed{right, bucket, true}).view(daemon(true)); v.Cold().Cap != bucket.Capacity || v.Until != 95e6 {
		t.Errorf("%+v", v)
	}
	if v := (viewed{right, window, true}).view(daemon(true)); v.Extra != 0 {
		t.Errorf("a limit that counts is strict: %+v", v)
	}
	drained := daemon(true)
	drained.Config.Regions[1].Floor = budget.Share{}
	if v := (viewed{right, bucket, true}).view(drained); v.Extra != 0 {
		t.Errorf("a region without a floor keeps nothing: %+v", v)
	}
}

// TestViewOfAHotKey has the share and its generation.
func TestViewOfAHotKey(t *testing.T) {
	gen := budget.Gen{Epoch: 3, Counter: 9}
	right := budget.Right{Hot: true, Gen: gen, Share: budget.Share{Rate: budget.Unit, Burst: budget.Unit}, Floor: third, Phase: budget.Limbo}
	v := viewed{right: right, limit: window}.view(daemon(true))
	if v.Gen != gen.Pack() || v.Share.Cap != window.Capacity || v.Phase != limit.Limbo || v.Stamp != 7 || v.HeardWait != 0 {
		t.Errorf("%+v", v)
	}
}

// TestBucketsWaitForChunksOfEarlierContents: what was taken in advance from the contents
// before is spent within a chunk's life, 100 ms by a clock that is 2 % slower, which new
// contents know nothing of; until then a bucket of theirs earns nothing, and a hot one
// that lost its record holds nothing. A clock that was set back since is no reason to wait.
func TestBucketsWaitForChunksOfEarlierContents(t *testing.T) {
	d, right := daemon(false), budget.Right{Floor: third, Phase: budget.Live, Until: 95e9}
	const after = 102_001
	v := viewed{right: right, limit: bucket}.view(d)
	if v.Birth != 40e6+after {
		t.Errorf("a bucket earns from %d us after the birth on", v.Birth-40e6)
	}
	if counted := (viewed{right: right, limit: window}).view(d); counted.Birth != 40e6 {
		t.Errorf("no chunk is taken of what counts: %d", counted.Birth)
	}
	right.Hot, right.Gen, right.Share = true, budget.Gen{Epoch: 1, Counter: 1}, third
	v = viewed{right: right, limit: bucket}.view(d)
	lost, _, amnesia := limit.Settle(limit.Record{}, v, 40e6+50_000)
	early, _, _ := limit.Settle(lost, v, 40e6+after+1)
	late, _, _ := limit.Settle(early, v, 41e6+after+1)
	if !amnesia || early.Tokens > 50 || late.Tokens < 33*limit.Token || late.Tokens > 34*limit.Token {
		t.Errorf("it holds %d when the last chunk has ended, and %d a second later", early.Tokens, late.Tokens)
	}
	back, _, _ := limit.Settle(limit.Record{}, v, 10e6)
	if waits := back.LentUntil - 10e6; waits > limit.MaxChunkLife {
		t.Errorf("a clock set back by half a minute counts %d us as out", waits)
	}
}

// TestViewOfAChangedLimit: a cold bucket of the region held its part of the limit before, and the whole
// of it if the limit was only raised, or is elastic.
func TestViewOfAChangedLimit(t *testing.T) {
	right := budget.Right{Floor: third, Phase: budget.Live, Until: 95e9}
	part := func(c limit.Tokens) limit.Tokens { return entitlement.Bucket(limit.Limit{Capacity: c}, third).Cap }
	const before = 600 * limit.Token
	slowed := entitlement.Change{At: 50e9, Slow: limit.Rate{Micro: 10e6}, Cap: before, Rate: limit.Rate{Micro: 200e6}}
	raised := slowed
	raised.Cap = limit.MaxTokens
	for _, c := range []struct {
		what    string
		limit   limit.Limit
		change  entitlement.Change
		elastic bool
		cap     limit.Tokens
	}{
		{"slowed", bucket, slowed, false, part(before)},
		{"slowed and elastic", bucket, slowed, true, before},
		{"raised", bucket, raised, false, limit.MaxTokens},
		{"a longer window", window, entitlement.Change{At: 50e9, Cap: before}, false, part(before)},
	} {
		d := daemon(true)
		f := d.Frame(right, c.limit.Tail())
		v := f.View(right, c.limit, c.elastic)
		if f.Changed(&v, c.change, 51e6, right, c.elastic); v.Before.Cap != c.cap || v.RuleSince != 51e6 {
			t.Errorf("%s: since %d it held up to %d, want %d", c.what, v.RuleSince, v.Before.Cap, c.cap)
		}
		if slow := (entitlement.Bucket(limit.Limit{Rate: c.change.Slow}, third).Rate); v.Slow != slow {
			t.Errorf("%s: it earned %+v, want %+v", c.what, v.Slow, slow)
		}
	}
}

// What a hot key earned in a slow time follows from what it held then: its share, and in limbo no more than the floor.
func TestAHotKeyEarnedByItsShare(t *testing.T) {
	half := budget.Share{Rate: budget.Unit / 2, Burst: budget.Unit / 2}
	c := entitlement.Change{At: 50e9, Slow: limit.Rate{Micro: 10e6}, Cap: bucket.Capacity, Rate: bucket.Rate}
	for _, is := range []struct {
		right budget.Right
		want  budget.Share
	}{
		{budget.Right{Hot: true, Share: half, Floor: third, Phase: budget.Live, Until: 95e9}, half},
		{budget.Right{Hot: true, Share: half, Floor: third, Phase: budget.Limbo}, third},
		{budget.Right{Hot: true, Floor: third, Phase: budget.Limbo}, budget.Share{}},
		{budget.Right{Hot: true, Share: half, Floor: third, Phase: budget.CutOff, Since: 40e9}, third},
		{budget.Right{Hot: true, Share: half, Floor: half, Low: third, FloorSince: 40e9, Phase: budget.Live, Until: 95e9}, third},
	} {
		d := daemon(true)
		f := d.Frame(is.right, bucket.Tail())
		v := f.View(is.right, bucket, false)
		f.Changed(&v, c, 51e6, is.right, false)
		if want := entitlement.Bucket(limit.Limit{Rate: c.Slow}, is.want).Rate; v.Slow != want {
			t.Errorf("%v, share %v, floor %v: it earned %+v, want %+v", is.right.Phase, is.right.Share, is.right.Floor, v.Slow, want)
		}
		former, revised, until := entitlement.FormerWithoutStore(is.right, c, false, 0)
		if is.right.FloorSince == 0 && former.Rate.Micro != v.Slow.Micro || revised != c.At.Add(-entitlement.NoticedWithin) || until != c.At.Add(entitlement.LateUse) {
			t.Errorf("%v: without the store it earned %+v until %d, and maybe until %d, want %+v", is.right.Phase, former.Rate, revised, until, v.Slow)
		}
	}
}

// A view says up to which generation the daemon knows every share while its lease runs: after that
// others may have been sent later ones.
func TestOnlyALiveViewKnowsTheWatermark(t *testing.T) {
	gen := budget.Gen{Epoch: 3, Counter: 9}
	for phase, want := range map[budget.Phase]uint64{budget.Live: gen.Pack(), budget.Limbo: 0, budget.CutOff: 0} {
		right := budget.Right{Watermark: gen, Floor: third, Phase: phase}
		if v := (viewed{right: right, limit: bucket}).view(daemon(true)); v.Known != want {
			t.Errorf("%v: it knows all up to %d, want %d", phase, v.Known, want)
		}
	}
}

// TestALeaseEndsAtItsLeadersEpoch: a store tells leaders apart by the generations that package budget packs. Another
// daemon of the region applied the largest share there is.
func TestALeaseEndsAtItsLeadersEpoch(t *testing.T) {
	right := budget.Right{
		Hot: true, Gen: budget.Gen{Epoch: 3, Counter: 2}, Share: budget.Share{}, Floor: third,
		Watermark: budget.Gen{Epoch: 3, Counter: 9}, Phase: budget.Live, Since: 50e9, Until: 60e9,
	}
	v := viewed{right: right, limit: bucket}.view(daemon(true))
	all := limit.Bucket{Cap: bucket.Capacity, Rate: bucket.Rate}
	for _, c := range []struct {
		later budget.Gen
		cap   limit.Tokens
	}{
		{budget.Gen{Epoch: 3, Counter: 1<<32 - 1}, bucket.Capacity},
		{budget.Gen{Epoch: 4}, 0},
	} {
		record := limit.Record{Hot: true, Stamp: v.Stamp, At: 55e6, Gen: c.later.Pack(), Share: all}
		if _, in, _ := limit.Settle(record, v, 56e6); in.Cap != c.cap {
			t.Errorf("%+v: %d micro-tokens, want %d", c.later, in.Cap, c.cap)
		}
	}
}

// A view is blind if the daemon does not know what is lent and the store's contents are not the first:
// neither a lease nor first contents leave that open.
func TestBlindViews(t *testing.T) {
	for _, c := range []struct {
		what         string
		blind, later bool
		phase        budget.Phase
		is           bool
	}{
		{"later contents, without a session since the start", true, true, budget.Limbo, true},
		{"the same, cut off", true, true, budget.CutOff, true},
		{"a lease runs", true, true, budget.Live, false},
		{"the daemon knows what is lent", false, true, budget.Limbo, false},
		{"contents of unknown age", true, false, budget.Limbo, false},
	} {
		d := daemon(false)
		if !c.later {
			d.Birth = 0
		}
		right := budget.Right{Floor: third, Told: third, LimboFloor: third, Phase: c.phase, Blind: c.blind}
		if v := (viewed{right: right, limit: bucket}).view(d); v.Blind != c.is {
			t.Errorf("%s: blind is %v", c.what, v.Blind)
		}
	}
}

// After a change of floors a view has the least floor since: an older record earned by that.
func TestViewAfterAChangeOfFloors(t *testing.T) {
	least := budget.Share{Rate: budget.Unit / 6, Burst: budget.Unit / 2}
	right := budget.Right{Floor: third, Low: least, FloorSince: 60e9, Phase: budget.Live, Until: 95e9}
	v := viewed{right: right, limit: bucket}.view(daemon(true))
	if want := entitlement.Bucket(bucket, least.Min(third)); v.FloorSince != 60e6 || v.Low != want {
		t.Errorf("floors since %d, the least %+v, want %+v", v.FloorSince, v.Low, want)
	}
	right.FloorSince = 0
	if v := (viewed{right: right, limit: bucket}).view(daemon(true)); v.FloorSince != 0 || v.Low != (limit.Bucket{}) {
		t.Errorf("floors that never changed: %+v", v)
	}
}
