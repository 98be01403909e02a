package budget

import (
	"math/bits"
	"time"
)

// Parameters of the demand estimate. A mean over too short a time is noise, and one over too long a
// time is late. So the estimate is a mean over the time of some hundred tokens, and is discarded as
// soon as new requests differ from it by more than chance explains.
const (
	// memoryTokens is over how many tokens of the limit the mean is taken, between minMemory and
	// maxMemory. Its error is then a few percent of the limit.
	memoryTokens = 400 * microToken
	minMemory    = 2 * time.Second
	maxMemory    = 20 * time.Second
	// windowTokens sets the time of a first estimate, and the silence after which a key counts as
	// unused: the time in which the limit earns that many tokens, between minWindow and maxWindow.
	// Over a shorter time, a client of a slow limit looks idle between any two of its requests.
	windowTokens = 8 * microToken
	minWindow    = 200 * time.Millisecond
	maxWindow    = 5 * time.Second
	// quietMargin is how late a report may be.
	quietMargin = 50 * time.Millisecond
	// stoppedTokens: a stream that should have brought that many tokens and brought none has
	// stopped. By chance that happens to one stream of 20,000.
	stoppedTokens = 10 * microToken
	// maxGap is the longest gap between batches that count as one stream, unless the limit is slow.
	// A longer gap is a pause.
	maxGap = 500 * time.Millisecond
	// halfLifeDown is the half-life with which an estimate falls while no other region waits for
	// tokens. Most pauses are short.
	halfLifeDown = 5 * time.Second
)

// memory returns the time over which the mean of a limit's demand is taken: 4 s at 100 tokens a
// second.
func memory(limit KeyLimit) time.Duration {
	return min(max(timeToEarn(memoryTokens, limit), minMemory), maxMemory)
}

// rateWindow returns the time over which a limit's demand is first measured: 0.2 s at 40 tokens a
// second and above, 4 s at 2 a second.
func rateWindow(limit KeyLimit) time.Duration {
	return min(max(timeToEarn(windowTokens, limit), minWindow), maxWindow)
}

// QuietAfter returns the silence about a key after which it counts as unused: the window of its
// rates, or two report intervals of the region if they are longer.
func QuietAfter(limit KeyLimit, pace time.Duration) time.Duration {
	return max(rateWindow(limit), 2*pace) + quietMargin
}

// unmentioned returns for how long a region's reports may leave out a key that is in use.
func unmentioned(pace time.Duration) time.Duration { return max(pace, ReportKeyEvery) + quietMargin }

// timeToEarn returns how long a limit takes to earn an amount, at most an hour.
func timeToEarn(amount int64, limit KeyLimit) time.Duration {
	const longest = time.Hour
	if limit.Rate <= 0 || amount/limit.Rate >= int64(longest/time.Second) {
		return longest
	}
	return time.Duration(mulDiv(amount, int64(time.Second), limit.Rate))
}

// demand estimates the demand of one region for one key.
type demand struct {
	admitted, offered int64 // cumulative, by the latest report
	since             Instant
	last              Instant // when it was last in a report
	used              Instant // when the key was last used, as far as the leader knows
	gap               time.Duration
	known             bool
	rejecting         bool
	// The mean counts what came in during over.
	over                      time.Duration
	meanOffered, meanAdmitted int64
	// The window counts what came in since then, to be compared with the mean.
	window                        Instant
	windowOffered, windowAdmitted int64
	// slow follows a rising estimate at once and a falling one slowly. The unit is the limit's
	// rate.
	slow, slowAdmitted int64
}

// fold adds one report of the key. previous is when the region reported last. Usage since then is
// in this report, unless the region's report interval has already put the key into an earlier one.
func (d *demand) fold(rep KeyReport, limit KeyLimit, pace time.Duration, previous, now Instant) {
	if d.window == 0 {
		d.window, d.since = previous, now
	}
	if d.last != 0 && previous.Sub(d.last) >= unmentioned(pace) {
		d.absorb(limit, previous) // the key was not used in between
	}
	if rep.Offered > d.offered || d.used == 0 {
		d.used = now.Add(-min(rep.Idle, maxMemory))
	}
	d.gap = min(rep.Gap, max(rateWindow(limit), maxGap))
	d.windowOffered += rep.Offered - d.offered
	d.windowAdmitted += rep.Admitted - d.admitted
	d.admitted, d.offered, d.rejecting = rep.Admitted, rep.Offered, rep.Rejecting
	before := d.last
	d.last = now
	if before == 0 && untouched(&rep, limit) {
		d.restart(0, now)
	}
	d.absorb(limit, now)
	d.follow(limit, now.Sub(before), now)
}

// untouched reports whether the first report of a key shows that its region has used nothing of it
// just before: the limit is slow, and the bucket is full. Then the demand is nothing. It would be
// unknown for maxWindow otherwise, and for as long the region that refuses requests would not get
// what no other region uses.
func untouched(rep *KeyReport, limit KeyLimit) bool {
	full := Scale(limit.Capacity, rep.Share.Burst)
	return earnsSlowly(limit, rep.Share.Rate) && rep.Offered == 0 && !rep.Rejecting &&
		full >= microToken && rep.Tokens > full-roundedOff && rep.Tokens <= full
}

// earnsSlowly reports whether a bucket at a rate earns so little that one request would still be missing
// a tenth of a second later: less than homedBelow a second.
func earnsSlowly(limit KeyLimit, rate int32) bool {
	return limit.Capacity > 0 && limit.Tail == 0 && Scale(limit.Rate, rate) < homedBelow*microToken
}

// roundedOff is what a full bucket may lack: an eighth of a token.
const roundedOff = microToken / 8

// absorb extends the window to an instant. When it is time, the window is merged into the mean or
// replaces it.
func (d *demand) absorb(limit KeyLimit, now Instant) {
	elapsed := now.Sub(d.window)
	switch {
	case elapsed <= 0:
	case !d.known:
		if elapsed >= rateWindow(limit) || elapsed >= minWindow && d.windowOffered >= windowTokens {
			d.restart(elapsed, now)
		}
	case d.stopped(now):
		// What came in before the stop says nothing of what comes after it.
		d.windowOffered, d.windowAdmitted = 0, 0
		d.restart(elapsed, now)
	case d.changed(elapsed):
		d.restart(elapsed, now)
	case elapsed >= memory(limit)/4:
		d.merge(memory(limit), elapsed, now)
	}
}

// restart makes the window the mean. A short window counts as longer, because a few requests at
// once are no rate.
func (d *demand) restart(elapsed time.Duration, now Instant) {
	d.known, d.over = true, max(elapsed, minWindow)
	d.meanOffered, d.meanAdmitted = d.windowOffered, d.windowAdmitted
	d.window, d.windowOffered, d.windowAdmitted = now, 0, 0
}

// merge adds the window to the mean. The mean forgets what is older than the memory.
func (d *demand) merge(maxOver, elapsed time.Duration, now Instant) {
	d.over += elapsed
	d.meanOffered += d.windowOffered
	d.meanAdmitted += d.windowAdmitted
	if d.over > maxOver {
		d.meanOffered = mulDiv(d.meanOffered, int64(maxOver), int64(d.over))
		d.meanAdmitted = mulDiv(d.meanAdmitted, int64(maxOver), int64(d.over))
		d.over = maxOver
	}
	d.window, d.windowOffered, d.windowAdmitted = now, 0, 0
}

// changed reports whether the window differs from the mean by more than an eighth, and by more than
// four standard deviations of requests that arrive at random.
func (d *demand) changed(elapsed time.Duration) bool {
	expected := d.expected(elapsed)
	diff := abs(d.windowOffered - expected)
	if diff <= max(d.windowOffered, expected)/8 || d.windowOffered < expected && elapsed <= 2*d.gap {
		return false // too little, or the next batch is not due
	}
	variance := expected + microToken
	variance += mulDiv(variance, int64(min(elapsed, 4*d.over)), int64(d.over)) // the mean is a sample too
	hi, lo := bits.Mul64(uint64(diff), uint64(diff))
	hi2, lo2 := bits.Mul64(uint64(variance), 16*microToken)
	return hi > hi2 || hi == hi2 && lo > lo2
}

// expected returns the amount that the mean brings in a time.
func (d *demand) expected(elapsed time.Duration) int64 {
	const maxAmount = int64(1) << 60
	if d.meanOffered >= maxAmount/int64(elapsed/d.over+1) {
		return maxAmount
	}
	return mulDiv(d.meanOffered, int64(elapsed), int64(d.over))
}

// stopped reports whether the mean expected another use of the key by now.
func (d *demand) stopped(now Instant) bool {
	idle := now.Sub(d.used)
	return d.known && idle > 2*d.gap && d.expected(idle) >= stoppedTokens
}

// estimate returns the demand at an instant, in units of the limit's rate. The window must extend
// to that instant.
func (d *demand) estimate(limit KeyLimit, now Instant) (offered, admitted int64) {
	if !d.known || d.stopped(now) {
		return 0, 0
	}
	over := d.over + max(now.Sub(d.window), 0)
	return rateUnits(d.meanOffered+d.windowOffered, over, limit), rateUnits(d.meanAdmitted+d.windowAdmitted, over, limit)
}

// follow moves the slow estimate towards the present one.
func (d *demand) follow(limit KeyLimit, dt time.Duration, now Instant) {
	if !d.known {
		return
	}
	offered, admitted := d.estimate(limit, now)
	d.slow = max(offered, decayed(d.slow, offered, dt))
	d.slowAdmitted = max(admitted, decayed(d.slowAdmitted, admitted, dt))
}

// at returns the demand as of the region's latest report.
func (d demand) at(lastReport Instant, limit KeyLimit, pace time.Duration) demandNow {
	silence := QuietAfter(limit, pace)
	quietSince := max(d.used, d.since)
	idle := quietSince != 0 && lastReport.Sub(quietSince) >= silence
	if d.last == 0 {
		// The key was held since the session began and never reported: it is not used.
		return demandNow{Known: idle, Idle: idle}
	}
	if lastReport.Sub(d.last) >= unmentioned(pace) {
		d.absorb(limit, lastReport)
		d.follow(limit, lastReport.Sub(d.last), lastReport)
	} else {
		lastReport = d.last
	}
	now := demandNow{Known: d.known, Idle: idle, Slow: d.slow, SlowAdmitted: d.slowAdmitted}
	now.Fast, now.FastAdmitted = d.estimate(limit, lastReport)
	now.Rejecting = d.rejecting && lastReport.Sub(d.last) < silence && !d.stopped(lastReport)
	return now
}

// quiet reports whether the region has stopped using the key: its latest report came that long
// after the latest one with the key.
func (d *demand) quiet(lastReport Instant, silence time.Duration) bool {
	return d.last == 0 || lastReport.Sub(d.last) >= silence
}

// demandNow is one region's demand at one instant, in units of the limit's rate. Fast is the best
// estimate at that instant. Slow leaves out short pauses.
type demandNow struct {
	Known              bool
	Rejecting          bool
	Idle               bool // nothing was asked for during a whole window
	Fast, FastAdmitted int64
	Slow, SlowAdmitted int64
}

// rateUnits returns an amount over a time as a fraction of the limit's rate, at most the whole,
// since no region can get more.
func rateUnits(amount int64, over time.Duration, limit KeyLimit) int64 {
	if amount <= 0 || over <= 0 {
		return 0
	}
	perSecond := limit.Rate
	if perSecond <= 0 {
		return Unit // slower than a micro-token a second: any use is more
	}
	// Compute amount/over as a share of perSecond. Each step stays below 2^63, because amounts
	// above 2^20 seconds of the whole rate are cut first.
	if amount/perSecond >= 1<<20 {
		return Unit
	}
	whole, rest := amount/perSecond, amount%perSecond
	seconds := whole<<30 + mulDiv(rest, 1<<30, perSecond) // in 2^-30 seconds of the rate
	return min(mulDiv(seconds, int64(time.Second), int64(over))>>10, Unit)
}

// decayed moves a value down towards another over dt, by halves. Between half-lives it is linear,
// which is within 6 % of 2^-x.
func decayed(from, to int64, dt time.Duration) int64 {
	if from <= to {
		return to
	}
	diff := (from - to) >> min(int64(dt/halfLifeDown), 62)
	return to + diff - mulDiv(diff, int64(dt%halfLifeDown), 2*int64(halfLifeDown))
}
