// Package timeline is the time of a simulated world: what is planned for when, random numbers, and a
// record of what happened.
package timeline

import (
	"math"
	"math/rand/v2"
)

// Timeline is true time, in nanoseconds since the world began, and everything that is planned. A
// Timeline is not safe for concurrent use.
type Timeline struct {
	// Rand draws the world's random numbers.
	Rand *rand.Rand

	now    int64
	queue  queue
	events int64
	record record
}

// New returns a timeline at its beginning.
func New(r *rand.Rand) Timeline { return Timeline{Rand: r, record: record{hash: offsetBasis}} }

// Now returns the true time.
func (t *Timeline) Now() int64 { return t.now }

// Events returns how much has happened.
func (t *Timeline) Events() int64 { return t.events }

// After plans a call for d nanoseconds from now.
func (t *Timeline) After(d int64, do Callback) { t.Plan(d, do) }

// Plan is After for a Happening that is not a function.
func (t *Timeline) Plan(d int64, do Happening) { t.queue.push(t.now+max(d, 0), do) }

// Next lets the earliest thing happen that is planned up to a true time, and reports whether there
// was one.
func (t *Timeline) Next(end int64) bool {
	if !t.queue.due(end) {
		return false
	}
	var do Happening
	t.now, do = t.queue.pop()
	t.events++
	do.Happen()
	return true
}

// Skip lets time pass up to end, if nothing is planned until then.
func (t *Timeline) Skip(end int64) { t.now = end }

// Between draws from low up to but not including high.
func (t *Timeline) Between(low, high int64) int64 {
	if high <= low {
		return low
	}
	return low + t.Rand.Int64N(high-low)
}

// Chance draws true n times in of.
func (t *Timeline) Chance(n, of int) bool { return t.Rand.IntN(of) < n }

// Exponential draws a time with the given mean.
func (t *Timeline) Exponential(mean int64) int64 { return Exponential(t.Rand, mean) }

// Exponential draws a time with the given mean from a generator.
func Exponential(from *rand.Rand, mean int64) int64 {
	return int64(-math.Log(1-from.Float64()) * float64(mean))
}
