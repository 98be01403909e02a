package document

import (
	"math/big"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"aliquot/limit"
	"aliquot/rules/source"
)

const (
	// MaxCapacity is the largest capacity or limit, in requests.
	MaxCapacity = int64(limit.MaxTokens / limit.Token)
	// MaxRate is the largest refill rate, in requests a second.
	MaxRate = MaxCapacity
	// MinWindow and MaxWindow bound a window. The division over regions cannot follow a shorter
	// one, and a longer one is a mistake (100 years).
	MinWindow = time.Second
	MaxWindow = 36525 * 24 * time.Hour
	// maxCountedWindow caps the window of a counting limit. A share of it moves to another region
	// only after what was used here has stopped to count everywhere.
	maxCountedWindow = 366 * 24 * time.Hour

	rateUnit = 1_000_000 // millionths of a micro-token, the unit of limit.Rate.Frac
)

// rateOf rounds requests a second down to limit.Rate's unit. The value must be in [0, MaxRate].
func rateOf(perSecond *big.Rat) limit.Rate {
	scaled := new(big.Int).Mul(perSecond.Num(), big.NewInt(int64(limit.Token)*rateUnit))
	scaled.Quo(scaled, perSecond.Denom())
	micro, frac := new(big.Int).QuoRem(scaled, big.NewInt(rateUnit), new(big.Int))
	return limit.Rate{Micro: micro.Int64(), Frac: frac.Int64()}
}

// ratePer returns n requests per window, rounded down to limit.Rate's unit, for n up to MaxCapacity
// and a window of at least MinWindow.
//
// Worked number: 1 request a day is 1e15/86400e9 = 11 micro-tokens a second and a remainder of
// 49.6e12, which is 0.574074 of another one.
func ratePer(n int64, window time.Duration) limit.Rate {
	high, low := bits.Mul64(uint64(n)*uint64(limit.Token), uint64(time.Second))
	micro, rest := bits.Div64(high, low, uint64(window))
	high, low = bits.Mul64(rest, rateUnit)
	frac, _ := bits.Div64(high, low, uint64(window))
	return limit.Rate{Micro: int64(micro), Frac: int64(frac)}
}

// fillsIn reports whether an empty bucket is full after the window, give or take the hundredth by which
// people round a rate: 100 at 1.67 a second is full after 60 s.
func fillsIn(l limit.Limit, window time.Duration) bool {
	perSecond := new(big.Int).Mul(big.NewInt(l.Rate.Micro), big.NewInt(rateUnit))
	perSecond.Add(perSecond, big.NewInt(l.Rate.Frac))
	filled := perSecond.Mul(perSecond, big.NewInt(int64(window)))
	full := new(big.Int).Mul(big.NewInt(int64(l.Capacity)), big.NewInt(rateUnit*int64(time.Second)))
	off := filled.Sub(filled, full)
	return off.Abs(off).Mul(off, big.NewInt(100)).Cmp(full) <= 0
}

// fillTime returns the time in which an empty bucket fills, rounded up to a second and down to
// MaxWindow.
func fillTime(l limit.Limit) time.Duration {
	unit := big.NewInt(rateUnit)
	rate := new(big.Int).Mul(big.NewInt(l.Rate.Micro), unit)
	rate.Add(rate, big.NewInt(l.Rate.Frac))
	if rate.Sign() <= 0 {
		return MaxWindow
	}
	amount := new(big.Int).Mul(big.NewInt(int64(l.Capacity)), unit)
	amount.Add(amount, rate).Sub(amount, big.NewInt(1)).Quo(amount, rate)
	longest := int64(MaxWindow / time.Second)
	if !amount.IsInt64() || amount.Int64() > longest {
		return MaxWindow
	}
	return time.Duration(amount.Int64()) * time.Second
}

const durationHelp = "not a duration; write seconds (60) or a number with a unit (ms, s, m, h, d), like \"1m\" or \"1h30m\""

// parseDuration reads seconds ("60", "1.5") or terms with units ("1h30m", "30d"), exactly to the
// nanosecond.
func parseDuration(text string) (d time.Duration, why string) {
	if len(text) > source.MaxNumberText {
		return 0, durationHelp
	}
	total := new(big.Rat)
	rest := text
	for terms := 0; rest != "" || terms == 0; terms++ {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		unitEnd := digits + len(rest[digits:]) - len(strings.TrimLeft(rest[digits:], "abcdefghijklmnopqrstuvwxyz"))
		unit, known := durationUnit(rest[digits:unitEnd])
		if rest[digits:unitEnd] == "" {
			unit, known = time.Second, unitEnd == len(rest) && terms == 0
		}
		value, bad := source.ParseDecimal(rest[:digits])
		if !known || bad != "" {
			return 0, durationHelp
		}
		total.Add(total, value.Mul(value, new(big.Rat).SetInt64(int64(unit))))
		rest = rest[unitEnd:]
	}
	nanoseconds := new(big.Int).Quo(total.Num(), total.Denom())
	if !nanoseconds.IsInt64() {
		return MaxWindow + 1, ""
	}
	return time.Duration(nanoseconds.Int64()), ""
}

func durationUnit(name string) (time.Duration, bool) {
	switch name {
	case "ms":
		return time.Millisecond, true
	case "s":
		return time.Second, true
	case "m":
		return time.Minute, true
	case "h":
		return time.Hour, true
	case "d":
		return 24 * time.Hour, true
	}
	return 0, false
}

// parseVersion reads a whole number in [0, 2^63).
func parseVersion(text string) (int64, bool) {
	v, err := strconv.ParseInt(text, 10, 64)
	return v, err == nil && v >= 0 && strconv.FormatInt(v, 10) == text
}
