package sim

import (
	"slices"
	"testing"
	"time"

	"aliquot/internal/sim/site"
	"aliquot/limit"
)

// belowFaults are what befalls the store of a region while its clients stay below their limits.
var belowFaults = []struct {
	name   string
	strike func(*Driven, int)
}{
	{"nothing", func(*Driven, int) {}},
	{"flush", func(d *Driven, region int) { d.Flush(region) }},
	{"two flushes", func(d *Driven, region int) {
		d.Flush(region)
		d.After(3*time.Millisecond, func() { d.Flush(region) })
	}},
	{"stop 60 ms", func(d *Driven, region int) { d.Stop(region, 60*time.Millisecond) }},
	{"stop 1 s", func(d *Driven, region int) { d.Stop(region, time.Second) }},
	{"stop 30 s", func(d *Driven, region int) { d.Stop(region, 30*time.Second) }},
	{"stop 1 s, empty after it", func(d *Driven, region int) {
		d.Stop(region, time.Second)
		d.Flush(region)
	}},
}

// belowLimits are those of the clients, each of which asks for half of what it may.
var belowLimits = []limit.Limit{
	of(300, 100), of(30, 10),
	{Algorithm: limit.LeakyBucket, Capacity: 100 * limit.Token, Rate: limit.Rate{Micro: 20 * million}},
	{Algorithm: limit.FixedWindow, Capacity: 300 * limit.Token, Window: 20 * time.Second},
	{Algorithm: limit.SlidingCounter, Capacity: 300 * limit.Token, Window: 20 * time.Second},
	{Algorithm: limit.SlidingLog, Capacity: 300 * limit.Token, Window: 20 * time.Second},
	{Algorithm: limit.Concurrency, Capacity: 300 * limit.Token, Window: 20 * time.Second},
}

// refusedBelow are the refusals that are known, by fault and algorithm, as parts of a thousand requests. There are none
// beside these:
//
//   - A store that lost a log is told its use by quarters of a window, as of their ends, and the quarter that is over in
//     part as of the last answer. What several flushes within two windows say adds up.
//   - A slot that was in use when the contents were lost counts until its end, because nothing finds it any more.
//   - Where the stores of all regions are stopped for longer than a lease, shares cannot change, and a limit that counts
//     has its floor back a tail later. A limit that counts admits nothing while its share changes in the store.
var refusedBelow = map[string]int{
	"flush, sliding_window_log": 151, "two flushes, sliding_window_log": 151, "stop 1 s, empty after it, sliding_window_log": 204,
	"flush, concurrency": 240, "two flushes, concurrency": 240, "stop 1 s, empty after it, concurrency": 300,
	"stop 1 s, empty after it, fixed_window": 3, "stop 1 s, empty after it, sliding_window_counter": 3,
	"stop 30 s, fixed_window": 206, "stop 30 s, sliding_window_counter": 221, "stop 30 s, sliding_window_log": 65,
	"stop 30 s, concurrency": 785,
}

// TestBelowTheLimit: a request under the limit by its own region's account is admitted, whatever befalls the store
// while its daemon lives. A client in each of three regions asks for a sixth of its limit, evenly; another one stays in one
// region and asks for half.
func TestBelowTheLimit(t *testing.T) {
	for _, fault := range belowFaults {
		for _, l := range belowLimits {
			for _, spread := range []bool{true, false} {
				asked, got := below(t, l, spread, fault.strike)
				name := fault.name + ", " + l.Algorithm.String()
				if refused := asked - got; 1000*refused > refusedBelow[name]*asked {
					t.Errorf("%s (%d, in all regions: %v): %d of %d refused", name, l.Capacity/limit.Token, spread, refused, asked)
				}
			}
		}
	}
}

// below is how many requests a world's client made in a minute in which its regions' stores were struck in turns, and
// how many were admitted. Before that its shares have come to where it is.
func below(t *testing.T, l limit.Limit, spread bool, strike func(*Driven, int)) (asked, got int) {
	t.Helper()
	regions := []int{0}
	if spread {
		regions = []int{0, 1, 2}
	}
	d := NewDriven(DriveOptions{
		Seed: 1, RTTs: slices.Repeat([]time.Duration{80 * time.Millisecond}, 3), Quorum: 80 * time.Millisecond,
		Keys: []DrivenKey{{Limit: l}}, Drifting: true,
	})
	perSecond := l.PerSecond().Micro
	every := time.Duration(int64(2*second) * int64(limit.Token) / perSecond * int64(len(regions)))
	const from, settled, until = 5 * time.Second, 20 * time.Second, 80 * time.Second
	for i, region := range regions {
		var ask func()
		ask = func() {
			d.Ask(region, 0, 1, limit.Token, func(site.Decided) {})
			if d.Now() >= settled {
				asked++
			}
			if d.Now() < until {
				d.After(every, ask)
			}
		}
		d.After(from+every*time.Duration(i)/time.Duration(len(regions)), ask)
	}
	for at := 25 * time.Second; at < until; at += 12 * time.Second {
		region := regions[int(at/(12*time.Second))%len(regions)]
		d.After(at+7*time.Millisecond, func() { strike(d, region) })
	}
	admitted := func() (n int) {
		for _, got := range d.w.Rules[0].Got {
			n += int(got / limit.Token)
		}
		return n
	}
	before := 0
	d.After(settled-time.Millisecond, func() { before = admitted() })
	if broken := d.Run(until + 31*time.Second); broken != nil {
		t.Fatal(broken)
	}
	return asked, admitted() - before
}
