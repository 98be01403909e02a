package audit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"aliquot/budget"
)

// spending is tokens that a region admitted at an instant, in seconds.
type spending struct {
	at     float64
	region int
	tokens float64
}

// history draws what regions admit of one key of capacity 100 and rate 10/s. If
// together is set, one exact bucket decides for all; else each region has the
// whole limit to itself, which is up to `regions` times too much.
func history(rng *rand.Rand, regions int, seconds float64, together bool) []spending {
	const capacity, rate = 100., 10.
	level, at := make([]float64, regions), make([]float64, regions)
	for i := range level {
		level[i] = capacity
	}
	most := 1 + rng.IntN(2)*rng.IntN(20)
	var out []spending
	for now := 0.; now < seconds; now += rng.ExpFloat64() / 100 {
		if rng.IntN(1000) == 0 {
			now += 20 * rng.Float64() // a pause, in which buckets fill
		}
		region := rng.IntN(regions)
		bucket := region
		if together {
			bucket = 0
		}
		level[bucket] = min(capacity, level[bucket]+rate*(now-at[bucket]))
		at[bucket] = now
		cost := float64(1 + rng.IntN(most))
		if cost <= level[bucket] {
			level[bucket] -= cost
			out = append(out, spending{now, region, cost})
		}
	}
	return out
}

// trueExcess is the most that was admitted in any interval above 100 + 10/s x time.
func trueExcess(all []spending) float64 {
	most, over, last := 0., 0., 0.
	for _, s := range all {
		over = max(0, over-10*(s.at-last)) + s.tokens
		last = s.at
		most = max(most, over-100)
	}
	return most
}

// told is a report as the leader hears of it.
type told struct {
	answered float64
	report   budget.Report
}

// tell reports a region's part of a history as regions do: one report at a time, the
// next one some time after the answer to the last, and the key in it if it was used,
// at most every tenth of a second. Messages and answers take their time, up to `slow`
// seconds, and some get stuck; now and then the session ends, the region may be cut
// off for a while, what it counted by then is lost, and a new session begins. So it
// does when an epoch ends, and the next leader numbers its sessions from 1 again.
func tell(rng *rand.Rand, all []spending, region int, until, slow float64, epochs []float64) (out []told) {
	delay := func() float64 {
		d := slow * rng.Float64() * rng.Float64()
		if rng.IntN(200) == 0 {
			d += 20 * rng.Float64()
		}
		return d
	}
	next, used, lastTold := 0, false, -1.
	session, admitted := uint64(1), int64(0)
	count := func(until float64) {
		for ; next < len(all) && all[next].at <= until; next++ {
			if all[next].region == region {
				admitted, used = admitted+int64(all[next].tokens), true
			}
		}
	}
	for sent := delay(); sent < until; {
		count(sent)
		report := usage(region, session, admitted)
		if used && sent-lastTold >= .1 {
			used, lastTold = false, sent
		} else {
			report.Keys = nil
		}
		answered := sent + delay()
		if len(epochs) > 0 && answered >= epochs[0] {
			away := answered + delay()
			count(away)
			session, admitted, epochs = 1, 0, epochs[1:]
			sent = away + .02 + delay()
			continue
		}
		out = append(out, told{answered, report})
		sent = answered + .02 + delay()
		if rng.IntN(30) == 0 {
			away := answered + .01
			if rng.IntN(3) == 0 {
				away += 30 * rng.Float64()
			}
			count(away)
			session, admitted = session+1, 0
			sent = away + .02 + delay()
		}
	}
	return out
}

// observe lets a audit hear everything in the order of the answers, by a clock that
// runs at the given pace, with the allowance for it. Epochs end as told.
func observe(heard []told, pace float64, rhoPPM int32, epochs []float64) float64 {
	slices.SortStableFunc(heard, func(a, b told) int { return cmp.Compare(a.answered, b.answered) })
	y := New(rhoPPM, strictly, 0)
	y.ruleFor(1)
	for _, h := range heard {
		for ; len(epochs) > 0 && h.answered >= epochs[0]; epochs = epochs[1:] {
			y = y.Resume(rhoPPM, strictly, second(epochs[0]*pace))
		}
		y.AddReport(h.report, second(h.answered*pace), always)
	}
	return y.rules[1].excess.value()
}

// TestAuditNeverMakesAnExcessUp: over drawn histories, reports, delays and cuts, what
// is observed was really admitted, and a limit that is kept shows no excess.
func TestAuditNeverMakesAnExcessUp(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		regions, slow := 1+rng.IntN(4), math.Pow(10, -2+2.5*rng.Float64())
		var epochs []float64
		for end := 0.; seed%2 == 1 && len(epochs) < 3; epochs = append(epochs, end) {
			end += 5 + 50*rng.Float64()
		}
		for _, together := range []bool{true, false} {
			all := history(rng, regions, 120, together)
			var heard []told
			for region := range regions {
				heard = append(heard, tell(rng, all, region, 130, slow, epochs)...)
			}
			truth, got := trueExcess(all), observe(heard, 1, 0, epochs)
			if got > truth+1e-3 {
				t.Fatalf("seed %d, together %v: observed an excess of %v, the true one is %v", seed, together, got, truth)
			}
			if together && truth > 1e-6 {
				t.Fatalf("seed %d: the exact bucket admitted %v too much: the test is wrong", seed, truth)
			}
			if slowed := observe(heard, .981, 20_000, epochs); together && slowed > 1e-3 {
				t.Fatalf("seed %d: a clock 1.9 %% slow makes up an excess of %v", seed, slowed)
			}
		}
	}
}

// TestAuditNoticesRegionsThatDoNotShare: with reports as they are on a WAN, most of an
// excess of two limits and a rate of twice the limit's is seen.
func TestAuditNoticesRegionsThatDoNotShare(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var all []spending
		for now := 0.; now < 60; now += .02 { // 50 a second are asked for, 30 admitted
			for region := range 3 {
				if now == 0 || int(now*10) != int((now-.02)*10) {
					all = append(all, spending{now, region, 1})
				}
			}
		}
		for region := range 3 { // and the bursts
			all = append(all, spending{1, region, 100})
		}
		slices.SortStableFunc(all, func(a, b spending) int { return cmp.Compare(a.at, b.at) })
		var heard []told
		for region := range 3 {
			heard = append(heard, steady(rng, all, region, 61)...)
		}
		truth, got := trueExcess(all), observe(heard, 1, 0, nil)
		if truth < 1000 || got < .95*truth {
			t.Errorf("seed %d: observed %v of an excess of %v", seed, got, truth)
		}
	}
}

// steady is tell without cuts, a report every tenth of a second, 80 ms away.
func steady(rng *rand.Rand, all []spending, region int, until float64) (out []told) {
	next, admitted := 0, int64(0)
	for sent := rng.Float64() / 10; sent < until; sent += .1 + .16 {
		for ; next < len(all) && all[next].at <= sent; next++ {
			if all[next].region == region {
				admitted += int64(all[next].tokens)
			}
		}
		out = append(out, told{sent + .08 + .1*rng.Float64()*.5, usage(region, 1, admitted)})
	}
	return out
}
