package document

import (
	"fmt"
	"math/big"
	"time"

	"aliquot/limit"
	"aliquot/rules/source"
)

// Params are the numbers of a limit that one level of the file states. Zero means not stated.
type Params struct {
	Capacity int64 // whole requests
	Limit    int64 // whole requests a window
	Rate     limit.Rate
	Window   time.Duration
	// Denies is limit: 0, which admits nothing. Unlimited is limit: unlimited. With either, the
	// other numbers of the same level except window are 0.
	Denies, Unlimited bool
}

// Over lays the params of a nearer level over inherited ones, number by number. A level that states
// a limit of its own replaces the inherited numbers about the same thing. So {limit: 500} over
// {capacity: 10, refill_rate: 1} is 500 a window, and not ten requests at one a second:
//   - limit replaces an inherited capacity and refill_rate;
//   - capacity with window (and no refill_rate) replaces limit and refill_rate;
//   - capacity with refill_rate replaces limit and window.
func (p Params) Over(inherited Params) Params {
	out := inherited
	if p.Denies || p.Unlimited {
		out = Params{Window: inherited.Window, Denies: p.Denies, Unlimited: p.Unlimited}
		if p.Window != 0 {
			out.Window = p.Window
		}
		return out
	}
	if p.Capacity != 0 || p.Limit != 0 || p.Rate != (limit.Rate{}) {
		out.Denies, out.Unlimited = false, false
	}
	switch stated := p.Rate != (limit.Rate{}); {
	case p.Capacity != 0 && stated:
		out.Limit, out.Window = 0, 0
	case p.Limit != 0:
		out.Capacity, out.Rate = 0, limit.Rate{}
	case p.Capacity != 0 && p.Window != 0 && !stated:
		out.Limit, out.Rate = 0, limit.Rate{}
	}
	if p.Capacity != 0 {
		out.Capacity = p.Capacity
	}
	if p.Limit != 0 {
		out.Limit = p.Limit
	}
	if p.Rate != (limit.Rate{}) {
		out.Rate = p.Rate
	}
	if p.Window != 0 {
		out.Window = p.Window
	}
	return out
}

// LimitFor checks that the numbers suit the algorithm. It returns the limit that they
// describe and the window to show for it. why says what is wrong, or is "".
func (p Params) LimitFor(algorithm string) (l limit.Limit, window time.Duration, why string) {
	kind := AlgorithmOf(algorithm)
	if p.Denies || p.Unlimited {
		l, window = p.allOrNothing(kind)
		return l, window, ""
	}
	if kind.Counts() {
		return p.counted(kind, algorithm)
	}
	l, window, why = p.bucket()
	l.Algorithm = kind
	return l, window, why
}

// allOrNothing returns a limit that admits nothing, or the limit of an unlimited rule. The latter
// is the value to use if another limit takes its place.
func (p Params) allOrNothing(kind limit.Algorithm) (l limit.Limit, window time.Duration) {
	window = min(max(p.Window, MinWindow), maxCountedWindow)
	l.Algorithm = kind
	whole := int64(0)
	if p.Unlimited {
		whole = MaxCapacity
		if kind.Logs() {
			whole = limit.MaxEntries
		}
	}
	l.Capacity = limit.Tokens(whole) * limit.Token
	if kind.Counts() {
		l.Window = window
	} else {
		l.Rate = ratePer(max(1, whole), window)
	}
	return l, window
}

// counted computes a counting limit: rights in a window.
func (p Params) counted(kind limit.Algorithm, algorithm string) (l limit.Limit, window time.Duration, why string) {
	switch {
	case p.Capacity != 0 || p.Rate != (limit.Rate{}):
		return l, 0, algorithm + " is stated as limit and window; remove capacity and refill_rate, and write params: {limit: 100, window: 60}"
	case p.Limit == 0 || p.Window == 0:
		return l, 0, algorithm + " needs limit and window; write params: {limit: 100, window: 60}"
	case p.Window > maxCountedWindow:
		return l, 0, algorithm + " counts over at most 366 days, for what it counted must outlast every move between regions; use algorithm token_bucket, or a shorter window"
	case p.Limit > limit.MaxEntries && kind == limit.Concurrency:
		return l, 0, fmt.Sprintf("%s remembers each slot by itself, at most %d of them; use a key of more attributes and a smaller limit, or algorithm %s for how many begin a second",
			algorithm, limit.MaxEntries, TokenBucket)
	case p.Limit > limit.MaxEntries && kind.Logs():
		return l, 0, fmt.Sprintf("%s remembers each request by itself, at most %d of them; use algorithm %s, or a limit of at most %d",
			algorithm, limit.MaxEntries, SlidingWindowCounter, limit.MaxEntries)
	}
	return limit.Limit{Algorithm: kind, Capacity: limit.Tokens(p.Limit) * limit.Token, Window: p.Window}, p.Window, ""
}

// bucket computes the token bucket that complete params describe, and the window to show for it.
// why says what is missing, or is "".
//
// The burst is capacity, or else limit. The rate is refill_rate, or else limit a window, or else
// capacity a window.
func (p Params) bucket() (l limit.Limit, window time.Duration, why string) {
	burst := p.Capacity
	if burst == 0 {
		burst = p.Limit
	}
	if burst == 0 && p.Rate == (limit.Rate{}) {
		return l, 0, "there is no limit here; write params: {capacity: 100, refill_rate: 10} or params: {limit: 100, window: 60}"
	}
	if burst == 0 {
		return l, 0, "refill_rate needs a capacity; add capacity (the burst) to params"
	}
	l.Capacity = limit.Tokens(burst) * limit.Token
	switch {
	case p.Rate != (limit.Rate{}):
		l.Rate = p.Rate
	case p.Window == 0:
		return l, 0, "the limit has no rate; add refill_rate (requests a second) or window (seconds) to params"
	case p.Limit != 0:
		l.Rate = ratePer(p.Limit, p.Window)
	default:
		l.Rate = ratePer(p.Capacity, p.Window)
	}
	return l, p.shownWindow(l), ""
}

// shownWindow returns the stated window if the bucket fills in about that time. Otherwise it returns the
// time to fill: a client reads the capacity beside the window as the rate.
func (p Params) shownWindow(l limit.Limit) time.Duration {
	if p.Window == 0 || !fillsIn(l, p.Window) {
		return fillTime(l)
	}
	return p.Window
}

// params reads a params mapping.
func (d *decoder) params(n *source.Node, what string) Params {
	return d.paramsWith(n, what, source.Schema{})
}

// paramsWith reads a mapping that has the fields of params and other fields.
func (d *decoder) paramsWith(n *source.Node, what string, known source.Schema) Params {
	var p Params
	var limitAt, windowAt source.Position
	known["capacity"] = func(f *source.Field) { p.Capacity = d.amount(f) }
	known["limit"] = func(f *source.Field) { limitAt = f.At; d.limit(f, &p) }
	known["refill_rate"] = func(f *source.Field) { p.Rate = d.rate(f) }
	known["window"] = func(f *source.Field) { windowAt = f.At; p.Window = d.window(f) }
	d.Mapping(n, what, known)
	if (p.Denies || p.Unlimited) && (p.Capacity != 0 || p.Rate != (limit.Rate{})) {
		d.Add(limitAt, "a limit of 0 or unlimited has no capacity and no refill_rate; remove these, or state another limit")
	}
	if p.Rate == (limit.Rate{}) {
		return p
	}
	if p.Limit != 0 && p.Capacity != 0 {
		d.Warn(limitAt, "limit has no effect here: capacity is the burst and refill_rate the rate; remove it")
	}
	if l, _, why := p.bucket(); why == "" && p.Window != 0 && !fillsIn(l, p.Window) {
		d.Warn(windowAt, "refill_rate decides here: it fills the burst of %d in %v, not in %v; remove window, or remove refill_rate", l.Capacity/limit.Token, fillTime(l), p.Window)
	}
	return p
}

// number reads a decimal number.
func (d *decoder) number(f *source.Field) *big.Rat {
	if !d.Is(f.Value, source.KindNumber, f.Name) {
		return nil
	}
	v, why := source.ParseDecimal(f.Value.Text)
	if why != "" {
		d.Add(f.Value.At, "%s %s: %s", f.Name, source.Shorten(f.Value.Text), why)
		return nil
	}
	return v
}

// limit reads the number of requests in a window. 0 is a deliberate denial.
func (d *decoder) limit(f *source.Field, p *Params) {
	if f.Value.Kind == source.KindString && f.Value.Text == unlimited {
		p.Unlimited = true
		return
	}
	if f.Value.Kind == source.KindNumber {
		if v, why := source.ParseDecimal(f.Value.Text); why == "" && v.Sign() == 0 {
			p.Denies = true
			return
		}
	}
	p.Limit = d.amount(f)
}

// unlimited is the limit of a rule that limits nothing and protects its requests from other rules.
const unlimited = "unlimited"

// amount reads a whole number of requests, 1 to MaxCapacity.
func (d *decoder) amount(f *source.Field) int64 {
	v := d.number(f)
	switch {
	case v == nil:
		return 0
	case v.Sign() == 0:
		d.Add(f.Value.At, "%s 0 would reject every request; write at least 1, limit: 0 to deny all that the rule matches, or use blacklist to block API keys", f.Name)
	case v.Sign() < 0:
		d.Add(f.Value.At, "%s must be positive; write at least 1", f.Name)
	case v.Cmp(new(big.Rat).SetInt64(MaxCapacity)) > 0:
		d.Add(f.Value.At, "%s is above the largest there is; write at most %d", f.Name, MaxCapacity)
	case !v.IsInt():
		d.Add(f.Value.At, "%s must be a whole number of requests; remove the fraction", f.Name)
	default:
		return v.Num().Int64()
	}
	return 0
}

// rate reads requests a second, above 0 and up to MaxRate.
func (d *decoder) rate(f *source.Field) limit.Rate {
	v := d.number(f)
	switch {
	case v == nil:
		return limit.Rate{}
	case v.Sign() == 0:
		d.Add(f.Value.At, "%s 0 would reject every request once the burst is spent; write a rate above 0", f.Name)
	case v.Sign() < 0:
		d.Add(f.Value.At, "%s must be positive; write a rate above 0", f.Name)
	case v.Cmp(new(big.Rat).SetInt64(MaxRate)) > 0:
		d.Add(f.Value.At, "%s is above the fastest there is; write at most %d requests a second", f.Name, MaxRate)
	case rateOf(v) == limit.Rate{}:
		d.Add(f.Value.At, "%s is below the slowest there is; write at least 0.000000000001 requests a second", f.Name)
	default:
		return rateOf(v)
	}
	return limit.Rate{}
}

// duration reads a duration, as a number of seconds or with units.
func (d *decoder) duration(f *source.Field) (time.Duration, bool) {
	n := f.Value
	if n.Kind != source.KindNumber && n.Kind != source.KindString {
		d.Add(n.At, "%s must be a duration, found %s; write seconds (60) or a text like \"1m\"", f.Name, n.Kind)
		return 0, false
	}
	v, why := parseDuration(n.Text)
	if why != "" {
		d.Add(n.At, "%s %s: %s", f.Name, source.Shorten(n.Text), why)
	}
	return v, why == ""
}

// window reads a duration from MinWindow to MaxWindow.
func (d *decoder) window(f *source.Field) time.Duration {
	v, ok := d.duration(f)
	switch {
	case !ok:
		return 0
	case v < MinWindow:
		d.Add(f.Value.At, "%s is shorter than a second; write at least 1", f.Name)
	case v > MaxWindow:
		d.Add(f.Value.At, "%s is longer than 100 years; write at most 36525d", f.Name)
	case v%time.Microsecond != 0:
		d.Add(f.Value.At, "%s is finer than a microsecond; write fewer decimal places", f.Name)
	default:
		return v
	}
	return 0
}
