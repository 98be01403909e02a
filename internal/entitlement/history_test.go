package entitlement_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"aliquot/budget"
	"aliquot/internal/entitlement"
	"aliquot/limit"
)

// version is a limit in force from an instant on, with what a daemon remembers of the ones before.
type version struct {
	limit  limit.Limit
	at     budget.Instant
	change entitlement.Change
}

// use is what a client used at an instant.
type use struct {
	at     budget.Instant
	tokens limit.Tokens
}

// TestNoSequenceOfLimitsGivesMoreThanTheyAllow: a client of a region's cold bucket uses what it can get under a sequence
// of limits. Its record expires, and another daemon goes by a limit for LateUse longer. In no interval does the client
// get more than a full bucket and what the limits earned. (No daemon is late here for a limit that is only raised.)
func TestNoSequenceOfLimitsGivesMoreThanTheyAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floor := rapid.SampledFrom([]budget.Share{all, third, {Rate: budget.Unit / 4, Burst: budget.Unit / 2}}).Draw(t, "floor")
		elastic := rapid.Bool().Draw(t, "elastic")
		versions := drawVersions(t, floor, elastic)
		right := budget.Right{Floor: floor, Phase: budget.Live, Until: 1 << 60}
		d := daemon(true)
		frame := d.Frame(right, 0)

		var uses []use
		record, gone := limit.Record{}, int64(0)
		now := versions[0].at
		for range rapid.IntRange(2, 40).Draw(t, "checks") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 100, 900, 1100, 3000, 15000}).Draw(t, "ms")) * time.Millisecond)
			i := len(versions) - 1
			for versions[i].at > now {
				i--
			}
			if i > 0 && versions[i].change.Cap != limit.MaxTokens && now < versions[i].at.Add(entitlement.LateUse) && rapid.Bool().Draw(t, "late") {
				i--
			}
			by := versions[i]
			v := frame.View(right, by.limit, elastic)
			if !by.change.Settled(by.limit, floor, elastic, now) {
				frame.Changed(&v, by.change, int64(by.change.At.Add(entitlement.LateUse))/1000, right, elastic)
			}
			v.Until = limit.MaxExact
			clock := int64(now) / 1000
			if clock > gone {
				record = limit.Record{}
			}
			record, _, _ = limit.Settle(record, v, clock)
			if took := record.Tokens; rapid.Bool().Draw(t, "all") || took < limit.Token {
				record.Tokens, uses = 0, append(uses, use{now, took})
			} else {
				record.Tokens, uses = record.Tokens-limit.Token, append(uses, use{now, limit.Token})
			}
			gone = clock + limit.TTL(record.Tokens, v.Cold())*1000
		}
		for i := range uses {
			sum := limit.Tokens(0)
			for j, u := range uses[i:] {
				sum += u.tokens
				if most := allowed(versions, floor, elastic, uses[i].at, u.at); sum > most {
					t.Fatalf("from %v to %v: %d micro-tokens, and %d are allowed\n%+v\n%+v", uses[i].at, u.at, sum, most, versions, uses[i:i+j+1])
				}
			}
		}
	})
}

// drawVersions draws a sequence of limits, and what a daemon remembers of each change.
func drawVersions(t *rapid.T, floor budget.Share, elastic bool) (versions []version) {
	at := budget.Instant(1000 * time.Second)
	for range rapid.IntRange(2, 6).Draw(t, "versions") {
		next := version{at: at, limit: of(rapid.SampledFrom([]int64{5, 50, 100, 400}).Draw(t, "capacity"), rapid.SampledFrom([]int64{1, 5, 20, 100}).Draw(t, "rate"))}
		if n := len(versions); n > 0 {
			last := versions[n-1]
			if last.limit == next.limit {
				continue
			}
			next.change = last.change.Then(last.limit, next.limit, floor, elastic, at)
		}
		versions = append(versions, next)
		at = at.Add(time.Duration(rapid.SampledFrom([]int{100, 900, 2000, 6000, 20000}).Draw(t, "lasts")) * time.Millisecond)
	}
	return versions
}

// allowed returns what a client may get in an interval: the largest capacity in force at its beginning, what a capacity
// grew by when a limit was only raised, and what the fastest limit in force earned. A limit is in force for LateUse
// longer.
func allowed(versions []version, floor budget.Share, elastic bool, from, to budget.Instant) limit.Tokens {
	full, earned := limit.Tokens(0), limit.Tokens(0)
	inForce := func(i int, at budget.Instant) bool {
		return versions[i].at <= at && (i+1 == len(versions) || at <= versions[i+1].at.Add(entitlement.LateUse))
	}
	part := func(l limit.Limit) limit.Bucket {
		b := entitlement.Bucket(l, floor)
		if elastic {
			b.Cap = l.Capacity
		}
		return b
	}
	ends := []budget.Instant{from, to}
	for i, v := range versions {
		ends = append(ends, min(max(v.at, from), to), min(max(v.at.Add(entitlement.LateUse), from), to))
		if inForce(i, from) {
			full = max(full, part(v.limit).Cap)
		}
		if v.at > from && v.at <= to && v.change.Cap == limit.MaxTokens {
			earned += part(v.limit).Cap - part(versions[i-1].limit).Cap
		}
	}
	slices.Sort(ends)
	for k := 1; k < len(ends); k++ {
		rate := int64(0)
		for i, v := range versions {
			if inForce(i, ends[k-1]) {
				rate = max(rate, part(v.limit).Rate.Micro+1)
			}
		}
		earned += limit.Tokens(rate*int64(ends[k].Sub(ends[k-1])/time.Microsecond)/1_000_000 + 1)
	}
	return full + earned
}
