package compare

import (
	"cmp"
	"slices"
	"time"
)

// admission is how many tokens were admitted at one instant.
type admission struct {
	at time.Duration
	n  int
}

// clockGrain is by how much a limit is never exceeded on account of what a store's
// clock can show: whole microseconds, twice for each region (once when a share moves
// away, once when it arrives). At 100 tokens a second and three regions it is six
// ten-thousandths of a token.
const clockGrain = 2 * time.Microsecond

// history is everything admitted for one key.
type history []admission

// sorted brings a history in the order of its instants.
func (h history) sorted() history {
	slices.SortStableFunc(h, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	return h
}

// ratio is the largest admitted/(capacity + rate*t) over all intervals of a sorted
// history, exactly: for a guess g the interval that admits most above g*(capacity +
// rate*t) is found in one pass, as the largest overdraft of a virtual bucket, and if
// it is above 0 its ratio is the better guess (Dinkelbach's method, a few rounds).
func (h history) ratio(capacity, rate float64) float64 {
	best := 0.0
	for {
		over, admitted, length := h.overdraft(best * rate)
		if len(h) == 0 || over <= best*capacity {
			return best
		}
		better := float64(admitted) / (capacity + rate*length.Seconds())
		if better <= best {
			return best
		}
		best = better
	}
}

// overdraft is the largest admitted - rate*t over all intervals, with that interval.
func (h history) overdraft(rate float64) (most float64, admitted int, length time.Duration) {
	sum, start, n := 0.0, time.Duration(0), 0
	for i, a := range h {
		if i > 0 {
			sum -= rate * (a.at - h[i-1].at).Seconds()
		}
		if i == 0 || sum <= 0 {
			sum, start, n = 0, a.at, 0
		}
		sum += float64(a.n)
		n += a.n
		if sum > most {
			most, admitted, length = sum, n, a.at-start
		}
	}
	return most, admitted, length
}

// total is what was admitted from one instant on, up to another.
func (h history) total(from, until time.Duration) int {
	n := 0
	for _, a := range h {
		if a.at >= from && a.at < until {
			n += a.n
		}
	}
	return n
}

// converged is how long after an instant the admissions keep up with a rate: never
// again, until the end, do they fall behind that rate from then on. It errs to the
// late side.
func (h history) converged(from, until time.Duration, rate float64) time.Duration {
	latest, most, sum := time.Duration(0), 0.0, 0
	consider := func(at time.Duration) {
		if behind := rate*at.Seconds() - float64(sum); behind >= most {
			latest, most = at, behind
		}
	}
	for _, a := range h {
		if a.at < from || a.at >= until {
			continue
		}
		consider(a.at - from)
		sum += a.n
	}
	consider(until - from)
	return latest
}
