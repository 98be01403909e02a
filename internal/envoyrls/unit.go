package envoyrls

import (
	"math"
	"time"
)

// unit is a RateLimitResponse.RateLimit.Unit.
type unit uint8

const day = 24 * time.Hour

// units are the protocol's units, the longest first, with the lengths that envoyproxy/ratelimit
// gives them.
var units = [...]struct {
	unit   unit
	length time.Duration
}{
	{6, 365 * day}, {5, 30 * day}, {7, 7 * day}, {4, day}, {3, time.Hour}, {2, time.Minute}, {1, time.Second},
}

// unitOf expresses a window as a multiple of the longest unit that divides it. It returns unit 0 if
// none does.
func unitOf(window time.Duration) (of unit, multiplier uint32) {
	if window <= 0 {
		return 0, 1
	}
	for i := range units {
		u := &units[i]
		if window%u.length == 0 && window/u.length <= math.MaxUint32 {
			return u.unit, uint32(window / u.length)
		}
	}
	return 0, 1
}

// maxMultiplier, in years, caps a window to what rules may have.
const maxMultiplier = 100

// window returns the time that the limit is stated over. It is 0 if the unit is unknown or the time
// too long.
func (o *own) window() time.Duration {
	multiplier := max(1, o.multiplier)
	for i := range units {
		u := &units[i]
		if uint64(u.unit) == o.unit && multiplier <= uint64(maxMultiplier*365*day/u.length) {
			return time.Duration(multiplier) * u.length
		}
	}
	return 0
}
