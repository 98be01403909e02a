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

// demands are what the live regions want and what they use. contested tells that some
// region is short, or that there is not enough for all: nothing is held back then, and
// who can wait does.
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
			want[n] = a.patient(a.Regions[i], want[n])
		}
	}
	return want, used, contested
}

// wants is the region's demand and its use. What is not known counts as the present
// share, and as the fair one once the region rejects; never as nothing. While any region
// rejects, the others' demand is what it is at the moment, pauses not left out, and one
// whose bucket runs low, or over, wants more, or less, than it uses up. Of a limit that
// counts pauses are left out even then: what is lent at once comes back a tail later,
// and where all regions pause now and then nobody would have it meanwhile. Who rejects
// wants more than it has, whatever the mean says.
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
		demand = max(demand, int64(c.Now.Rate)+minMove)
	}
	return min(demand, Unit), used
}

// patient is what a region wants while there is not enough for all. One whose bucket is
// not short can wait: its demand may have been chance, and what moves is lost on the way.
// One whose bucket does not overflow either keeps what it has, if it uses about as much.
func (a allocation) patient(c claim, want int64) int64 {
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

// drained is what its bucket loses in the time that a growth may take at the most.
func (a allocation) drained(c claim) int64 { return drained(c.Demand.Fast, c.Now, a.Rate) }

// drained is what a demand takes out of a share's bucket in growWithin.
func drained(demand int64, share Share, rate int64) int64 {
	return mulDiv(max(demand-int64(share.Rate), 0), rate*growWithin, Unit)
}

// growWithin is in how many seconds a share that is too small has surely grown.
const growWithin = 2

// correction steers a bucket towards half full: without it a share that is a little too
// small starves its region, and what a share is too large by overflows.
func (a allocation) correction(c claim) int64 {
	if a.Rate <= 0 {
		return 0
	}
	earned := a.Rate * correctWithin
	missing := min(max(Scale(a.Capacity, c.Now.Burst)/2-c.Tokens, -earned), earned)
	return min(max(mulDiv(missing, Unit, earned), -c.Demand.Fast/8), c.Demand.Fast)
}

// correctWithin is in how many seconds a bucket is steered to half full.
const correctWithin = 5
