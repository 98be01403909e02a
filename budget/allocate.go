package budget

// allocation is what one key's shares are decided from.
type allocation struct {
	Capacity int64 // micro-tokens; 0 if no region has told yet
	Rate     int64 // micro-tokens a second
	Counts   bool  // use of the limit outlasts its right: each move costs that time
	// Avail is what is not reserved for silent regions; negative parts mean that
	// even that is overdrawn for the moment.
	Avail   Share
	Regions []claim
}

// claim is one region's part in an allocation.
type claim struct {
	// Silent: it cannot be told anything, for it is not heard, or its store cannot change
	// the key's share.
	Silent bool
	// Draining: the region is to hold nothing, whatever it asks for.
	Draining bool
	Now      Share // held at present; for a silent region what is reserved
	Floor    Share
	Keep     Share // connected floor: never lent while live
	Tokens   int64 // in its bucket at its latest report, micro-tokens
	// Used is what was in use of a limit that counts at its latest report, micro-tokens, and
	// Recent that the region uses the key.
	Used   int64
	Recent bool
	Demand demandNow
}

// drains reports whether a region that is to hold nothing still does.
func (a allocation) drains() bool {
	for _, c := range a.Regions {
		if c.Draining && c.Now != (Share{}) {
			return true
		}
	}
	return false
}

// short reports whether the live regions hold more than there is for them.
func (a allocation) short() bool {
	var sum Share
	for _, c := range a.Regions {
		if !c.Silent {
			sum = sum.Add(c.Now)
		}
	}
	return !sum.Within(a.Avail.Max(Share{}))
}

// allocate decides what every region should hold: max-min fair by weight for what
// is demanded, the slack as headroom, a reserve in the pool (so that a growth
// takes one round trip, not two) and the rest by use. Silent regions keep what is
// reserved for them. The sum over live regions is at most Avail, or what they keep
// at the least, part by part.
func allocate(a allocation) []Share {
	out := make([]Share, len(a.Regions))
	live := make([]int, 0, len(a.Regions))
	for i, c := range a.Regions {
		switch {
		case c.Silent:
			out[i] = c.Now
		case !c.Draining:
			live = append(live, i)
		}
	}
	rates, reserve := a.rates(live)
	bursts := a.bursts(live, rates, reserve)
	for n, i := range live {
		out[i] = Share{Rate: int32(rates[n]), Burst: int32(bursts[n])}
	}
	return out
}

// rates divides the rate over the live regions; reserve is what stays in the pool.
func (a allocation) rates(live []int) (rates []int64, reserve int64) {
	avail := max(int64(a.Avail.Rate), 0)
	base := make([]int64, len(live))
	weight := make([]int64, len(live))
	for n, i := range live {
		c := a.Regions[i]
		base[n], weight[n] = int64(c.Keep.Rate), max(int64(c.Floor.Rate), 1)
	}
	if total(base) > avail {
		return a.noMoreThanKept(live, func(s Share) int32 { return s.Rate }), 0
	}
	want, used, contested := a.demands(live, avail)
	rates = fill(avail, base, want, weight)
	slack := avail - total(rates)
	if slack <= 0 {
		return rates, 0
	}
	head := make([]int64, len(live))
	for n, i := range live {
		head[n] = a.headroom(a.Regions[i], want[n])
	}
	head = fit(head, slack)
	slack -= addAll(rates, head)
	if !contested {
		reserve = min(slack, poolReserve)
	}
	rest := slack - reserve
	if total(used) == 0 {
		for n, i := range live {
			used[n] = int64(a.Regions[i].Now.Rate)
		}
	}
	addAll(rates, apportion(rest, used))
	return rates, reserve
}

// poolReserve is 5 % of the limit.
const poolReserve = Unit / 20

// headroom is ln(1/eps)/(2c) of the demand, with eps = 0.1 % and c the depth of the
// bucket in requests: Kingman's bound for how far arrivals at random run ahead.
func (a allocation) headroom(c claim, want int64) int64 {
	depth := Scale(a.Capacity, c.Now.Burst)
	if depth < microToken {
		return want
	}
	const half = 3_453_878 // ln(1000)/2, in millionths
	return min(mulDiv(want, half, depth), want)
}

// fill is weighted max-min fairness by water-filling: the largest level at which
// every region gets max(base, min(want, weight*level)) and the sum fits.
func fill(avail int64, base, want, weight []int64) []int64 {
	part := func(i int, level int64) int64 {
		return max(base[i], min(want[i], Scale(level, int32(weight[i]))))
	}
	fits := func(level int64) bool {
		left := avail
		for i := range base {
			left -= part(i, level)
		}
		return left >= 0
	}
	// Above high, where every want is met, nothing changes any more.
	low, high := int64(0), int64(1)
	for i := range want {
		high = max(high, mulDiv(max(want[i], 0), Unit, weight[i])+Unit)
	}
	for low < high {
		mid := (low + high + 1) / 2
		if fits(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	out := make([]int64, len(base))
	for i := range out {
		out[i] = part(i, low)
	}
	return out
}

// bursts divides the burst: it follows the rate beyond what everyone keeps. A small
// limit is divided in whole requests, for a part of one is of no use.
func (a allocation) bursts(live []int, rates []int64, reserve int64) []int64 {
	avail := max(int64(a.Avail.Burst), 0)
	keep := make([]int64, len(live))
	weights := make([]int64, len(live))
	for n, i := range live {
		keep[n] = int64(a.Regions[i].Keep.Burst)
		weights[n] = max(rates[n]-int64(a.Regions[i].Keep.Rate), 0)
	}
	if total(weights) == 0 {
		for n, i := range live {
			weights[n] = int64(a.Regions[i].Now.Burst)
		}
	}
	if total(keep) > avail {
		return a.noMoreThanKept(live, func(s Share) int32 { return s.Burst })
	}
	bursts := keep
	if a.Capacity <= wholeRequests*microToken {
		return a.wholeBursts(avail, bursts, weights)
	}
	extra := avail - total(bursts)
	if reserve > 0 {
		extra = max(0, extra-poolReserve)
	}
	addAll(bursts, apportion(extra, weights))
	return bursts
}

// wholeRequests is the largest limit whose burst is divided in whole requests.
const wholeRequests = 1000

func (a allocation) wholeBursts(avail int64, keep, weights []int64) []int64 {
	requests := a.Capacity / microToken
	if requests == 0 {
		return keep
	}
	left := mulDiv(avail, requests, Unit)
	counts := make([]int64, len(keep))
	for i, k := range keep {
		counts[i] = k * requests / Unit // what is kept is rounded up already
		left -= counts[i]
	}
	if left > 0 {
		addAll(counts, apportion(left, weights))
	}
	out := make([]int64, len(keep))
	for i, n := range counts {
		out[i] = max(keep[i], (n*Unit+requests-1)/requests)
	}
	// Rounding up can exceed what there is by a few units: who has most beyond
	// what is kept gives way, for one request matters least there.
	for excess := total(out) - avail; excess > 0; excess = total(out) - avail {
		most := 0
		for i := range out {
			if out[i]-keep[i] > out[most]-keep[most] {
				most = i
			}
		}
		out[most] -= min(excess, out[most]-keep[most])
	}
	return out
}

// noMoreThanKept is what live regions hold while even the connected floors do not
// fit beside what silent ones may still be enforcing. It is not cut further, so that
// everyone keeps a request at hand: no lease is renewed until a silent one's lease has
// ended.
func (a allocation) noMoreThanKept(live []int, part func(Share) int32) []int64 {
	out := make([]int64, len(live))
	for n, i := range live {
		out[n] = int64(part(a.Regions[i].Now.Min(a.Regions[i].Keep)))
	}
	return out
}

// fit scales parts down, by size, to sum to at most limit.
func fit(parts []int64, limit int64) []int64 {
	if total(parts) <= limit {
		return append([]int64(nil), parts...)
	}
	return apportion(limit, parts)
}

// addAll adds parts to sums and returns the total added.
func addAll(sums, parts []int64) int64 {
	for i, p := range parts {
		sums[i] += p
	}
	return total(parts)
}

func total(xs []int64) int64 {
	var sum int64
	for _, x := range xs {
		sum += x
	}
	return sum
}
