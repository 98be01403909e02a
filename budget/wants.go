package budget

// rejecting reports whether any region refuses requests.
func (a allocation) rejecting() bool {
	for _, c := range a.Regions {
		if !c.Silent && !c.Draining && c.Demand.Rejecting {
			return true
		}
	}
	return false
}

// demands returns what the live regions want and what they use. contested: some region is short, or
// there is not enough for all. Then nothing is held back, and regions that can wait do.
func (a allocation) demands(live []int, avail int64) (want, used []int64, contested bool) {
	want = make([]int64, len(live))
	used = make([]int64, len(live))
	rejecting := a.rejecting()
	for n, i := range live {
		want[n], used[n] = a.wants(a.Regions[i], rejecting)
	}
	contested = rejecting || total(want) > avail
	if contested {
		for n, i := range live {
			want[n] = a.wantWhenShort(a.Regions[i], want[n])
		}
	}
	return want, used, contested
}

// wants returns a region's demand and its use. An unknown demand counts as the present share. Once
// the region rejects it counts as the whole limit, which fairness cuts to the fair share. It never
// counts as nothing.
//
// While any region rejects, the others' demand is their demand at the moment, with pauses counted.
// A bucket that runs low, or over, then raises or lowers what its region wants. Pauses are left out
// even then for a counting limit: a part that is lent at once comes back a tail later, and where
// all regions pause now and then no region would have it meanwhile. A region that rejects wants
// more than it has, whatever the mean says.
func (a allocation) wants(c claim, anyRejecting bool) (demand, used int64) {
	d := c.Demand
	switch {
	case !d.Known && d.Rejecting:
		return Unit, int64(c.Now.Rate)
	case !d.Known:
		return int64(c.Now.Rate), int64(c.Now.Rate)
	}
	demand, used = d.Slow, d.SlowAdmitted
	if anyRejecting && !a.Counts {
		demand, used = d.Fast+a.correction(c), d.FastAdmitted
	}
	if d.Rejecting {
		demand = max(demand, int64(c.Now.Rate)+MinMove)
	}
	return min(demand, Unit), used
}

// wantWhenShort returns what a region wants while there is not enough for all. A region whose
// bucket is not short can wait: its demand may have been chance, and what moves is lost on the way.
// If its bucket does not overflow either, and it uses about as much as it has, it keeps its share.
func (a allocation) wantWhenShort(c claim, want int64) int64 {
	bucket, now := Scale(a.Capacity, c.Now.Burst), int64(c.Now.Rate)
	switch {
	case c.Demand.Rejecting || !c.Demand.Known || c.Tokens < max(bucket/4, a.drained(c)):
		return want
	case c.Tokens <= bucket/4*3 && c.Demand.Fast >= now-max(now/4, deadBand):
		return now
	default:
		return min(want, now)
	}
}

// drained returns what a region's bucket loses in growWithin.
func (a allocation) drained(c claim) int64 { return drained(c.Demand.Fast, c.Now, a.Rate) }

// drained returns what a demand takes out of a share's bucket in growWithin.
func drained(demand int64, share Share, rate int64) int64 {
	return mulDiv(max(demand-int64(share.Rate), 0), rate*growWithin, Unit)
}

// growWithin is the number of seconds in which a share that is too small has certainly grown.
const growWithin = 2

// correction steers a bucket towards half full. Without it a share that is a little too small
// starves its region, and the excess of a share that is too large overflows.
func (a allocation) correction(c claim) int64 {
	if a.Rate <= 0 {
		return 0
	}
	earned := a.Rate * correctWithin
	missing := min(max(Scale(a.Capacity, c.Now.Burst)/2-c.Tokens, -earned), earned)
	return min(max(mulDiv(missing, Unit, earned), -c.Demand.Fast/8), c.Demand.Fast)
}

// correctWithin is the number of seconds in which a bucket is steered to half full.
const correctWithin = 5
