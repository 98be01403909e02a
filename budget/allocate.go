package budget

// allocation is the input of a decision about one key's shares.
type allocation struct {
	Capacity int64 // micro-tokens; 0 if no region has reported the limit yet
	Rate     int64 // micro-tokens a second
	Counts   bool  // use of the limit outlasts its right by a tail, so each move costs that time
	// Avail is the limit without what is reserved for silent regions. A part is negative while even
	// the reserves sum above the limit.
	Avail   Share
	Regions []claim
}

// claim is one region's part in an allocation.
type claim struct {
	// Silent: the leader cannot change the region's share, because it does not hear the region or
	// because the region's store cannot change the key's share.
	Silent bool
	// Draining: the region must give up everything, whatever it asks for.
	Draining bool
	Now      Share // the share held at present; for a silent region the share reserved for it
	Floor    Share
	Keep     Share // connected floor: never lent while the region is live
	Tokens   int64 // in its bucket at its latest report, micro-tokens
	// Used is how much of a counting limit the region's latest report had in use, in micro-tokens.
	// Recent: the region uses the key.
	Used   int64
	Recent bool
	Demand demandNow
}

// drains reports whether a draining region still holds something.
func (a allocation) drains() bool {
	for _, c := range a.Regions {
		if c.Draining && c.Now != (Share{}) {
			return true
		}
	}
	return false
}

// short reports whether the live regions hold more than is available to them.
func (a allocation) short() bool {
	var sum Share
	for _, c := range a.Regions {
		if !c.Silent {
			sum = sum.Add(c.Now)
		}
	}
	return !sum.Within(a.Avail.Max(Share{}))
}

// allocate returns the share that each region should hold, by index. The rate is max-min fair by
// weight for the demand. The slack is divided as headroom, then a reserve stays in the pool, and
// the rest follows use. The reserve makes a growth take one round trip instead of two.
//
// Silent regions keep what is reserved for them. The shares of the live regions sum to at most
// Avail, or to their connected floors if those are larger, part by part.
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

// rates divides the rate over the live regions and returns the reserve that stays in the pool.
func (a allocation) rates(live []int) (rates []int64, reserve int64) {
	avail := max(int64(a.Avail.Rate), 0)
	base := make([]int64, len(live))
	weight := make([]int64, len(live))
	for n, i := range live {
		c := a.Regions[i]
		base[n], weight[n] = int64(c.Keep.Rate), max(int64(c.Floor.Rate), 1)
	}
	if total(base) > avail {
		return a.cutToKept(live, func(s Share) int32 { return s.Rate }), 0
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
	head = scaleDown(head, slack)
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

// headroom returns ln(1/eps)/(2c) of the demand, with eps = 0.1 % and c the depth of the bucket in
// requests. This is Kingman's bound for how far random arrivals run ahead of their mean.
func (a allocation) headroom(c claim, want int64) int64 {
	depth := Scale(a.Capacity, c.Now.Burst)
	if depth < microToken {
		return want
	}
	const half = 3_453_878 // ln(1000)/2, in millionths
	return min(mulDiv(want, half, depth), want)
}

// fill computes weighted max-min fairness by water-filling: it finds the largest level at which
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
	// Above high every want is met, so the result no longer changes.
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

// bursts divides the burst over the live regions. Beyond what every region keeps, the burst follows
// the rate. A small limit is divided in whole requests, because a part of a request is of no use.
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
		return a.cutToKept(live, func(s Share) int32 { return s.Burst })
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
		counts[i] = k * requests / Unit // the kept part is rounded up already
		left -= counts[i]
	}
	if left > 0 {
		addAll(counts, apportion(left, weights))
	}
	out := make([]int64, len(keep))
	for i, n := range counts {
		out[i] = max(keep[i], (n*Unit+requests-1)/requests)
	}
	// Rounding up can exceed the available burst by a few units. The region with the most beyond
	// its kept part gives way, because one request matters least there.
	for excess := total(out) - avail; excess > 0; excess = total(out) - avail {
		largest := 0
		for i := range out {
			if out[i]-keep[i] > out[largest]-keep[largest] {
				largest = i
			}
		}
		out[largest] -= min(excess, out[largest]-keep[largest])
	}
	return out
}

// cutToKept returns what the live regions hold, cut to their connected floors. It applies
// while even the connected floors do not fit beside what silent regions may still enforce. Nothing
// is cut further, so that every region keeps a request at hand. Until the silent region's lease has
// ended no lease is renewed.
func (a allocation) cutToKept(live []int, part func(Share) int32) []int64 {
	out := make([]int64, len(live))
	for n, i := range live {
		out[n] = int64(part(a.Regions[i].Now.Min(a.Regions[i].Keep)))
	}
	return out
}

// scaleDown returns the parts scaled down in proportion, so that they sum to at most limit.
func scaleDown(parts []int64, limit int64) []int64 {
	if total(parts) <= limit {
		return append([]int64(nil), parts...)
	}
	return apportion(limit, parts)
}

// addAll adds the parts to sums and returns the total of the parts.
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
