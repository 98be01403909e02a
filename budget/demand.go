package budget

import "time"

// Half-lives of the smoothed demand: up fast, for a new burst deserves room soon;
// down slowly, for most pauses are short.
const (
	halfLifeUp   = 500 * time.Millisecond
	halfLifeDown = 5 * time.Second
	// A raw rate is measured over the time in which the limit earns windowTokens,
	// within bounds: over less, a client of a slow limit looks idle between any
	// two of its requests.
	windowTokens = 8 * microToken
	minWindow    = 200 * time.Millisecond
	maxWindow    = 5 * time.Second
	// quietMargin is how late a report may be.
	quietMargin = 50 * time.Millisecond
)

// quietAfter is the silence about a key after which it was not used: the window of its
// rates, and two reports at the region's pace.
func quietAfter(limit KeyLimit, pace time.Duration) time.Duration {
	return max(rateWindow(limit), 2*pace) + quietMargin
}

// rateWindow is how long a limit's raw rates are measured: 0.2 s at 40 tokens a
// second and above, 4 s at 2 a second.
func rateWindow(limit KeyLimit) time.Duration {
	if limit.Rate <= 0 {
		return maxWindow
	}
	return min(max(time.Duration(mulDiv(windowTokens, int64(time.Second), limit.Rate)), minWindow), maxWindow)
}

// demand estimates what one region asks of one key, in units of 2^-20 of the
// limit's rate.
type demand struct {
	admitted, offered int64 // cumulative, as last reported
	since             Instant
	window            Instant // start of the raw-rate window
	windowOffered     int64
	windowAdmitted    int64
	known             bool
	raw               int64
	rawAdmitted       int64
	smooth            int64
	smoothAdmitted    int64
	rejecting         bool
	last              Instant // when it was last reported
	used              Instant // when a report last told of requests
}

// fold takes one report of the key in. previous is when the region reported last:
// usage since then is in this report, unless the key was in one a quiet time ago.
func (d *demand) fold(rep KeyReport, limit KeyLimit, quiet time.Duration, previous, now Instant) {
	if d.window == 0 {
		d.window, d.since = previous, now
	}
	if d.last != 0 && now.Sub(d.last) >= quiet {
		// It was quiet between: the window of new usage starts with it.
		d.decay(previous, now)
		d.window = max(d.window, previous)
	}
	if rep.Offered > d.offered {
		d.used = now
	}
	d.windowOffered += rep.Offered - d.offered
	d.windowAdmitted += rep.Admitted - d.admitted
	d.admitted, d.offered, d.rejecting, d.last = rep.Admitted, rep.Offered, rep.Rejecting, now
	if !d.known && d.idleAtFirst(rep, limit) {
		d.known = true
	}
	elapsed := now.Sub(d.window)
	if elapsed >= rateWindow(limit) || elapsed >= minWindow && d.windowOffered >= windowTokens {
		d.close(limit, elapsed, now)
	}
}

// idleAtFirst: a region that has just learned that a key is hot, and holds nearly
// all of its bucket, has had no use for it. Anything else stays unknown until
// measured.
func (d *demand) idleAtFirst(rep KeyReport, limit KeyLimit) bool {
	return !rep.Rejecting && rep.Offered == 0 && limit.Capacity > 0 &&
		rep.Tokens >= mulDiv(Scale(limit.Capacity, rep.Share.Burst), 9, 10)
}

// close ends a window: its rates become the raw ones and move the smoothed ones.
func (d *demand) close(limit KeyLimit, elapsed time.Duration, now Instant) {
	d.raw = rateUnits(d.windowOffered, elapsed, limit)
	d.rawAdmitted = rateUnits(d.windowAdmitted, elapsed, limit)
	if !d.known {
		d.known = true
		d.smooth, d.smoothAdmitted = d.raw, d.rawAdmitted
	}
	d.smooth = approach(d.smooth, d.raw, elapsed)
	d.smoothAdmitted = approach(d.smoothAdmitted, d.rawAdmitted, elapsed)
	d.window, d.windowOffered, d.windowAdmitted = now, 0, 0
}

// decay lets a quiet time up to until count as zero usage.
func (d *demand) decay(until, now Instant) {
	d.raw, d.rawAdmitted = 0, 0
	if quiet := until.Sub(d.last); quiet > 0 {
		d.smooth = approach(d.smooth, 0, quiet)
		d.smoothAdmitted = approach(d.smoothAdmitted, 0, quiet)
	}
}

// at is the demand as known at the region's latest report. silence is what quietAfter
// says.
func (d *demand) at(lastReport Instant, silence time.Duration) demandNow {
	now := demandNow{
		Known: d.known, Raw: d.raw, RawAdmitted: d.rawAdmitted,
		Smooth: d.smooth, SmoothAdmitted: d.smoothAdmitted, Rejecting: d.rejecting,
	}
	quietSince := max(d.used, d.since)
	now.Idle = quietSince != 0 && lastReport.Sub(quietSince) >= silence
	if d.last == 0 {
		// Held since the session began and never mentioned: not used.
		now.Known = d.since != 0 && lastReport.Sub(d.since) >= silence
		return now
	}
	if quiet := lastReport.Sub(d.last); quiet >= silence {
		now.Raw, now.RawAdmitted, now.Rejecting = 0, 0, false
		now.Smooth = approach(d.smooth, 0, quiet)
		now.SmoothAdmitted = approach(d.smoothAdmitted, 0, quiet)
		now.Known = true
	}
	return now
}

// quiet reports whether the region's latest report is so long after the latest one with
// the key that it does not use it any more.
func (d *demand) quiet(lastReport Instant, silence time.Duration) bool {
	return d.last == 0 || lastReport.Sub(d.last) >= silence
}

// demandNow is one region's demand at one instant, in units of the limit's rate.
type demandNow struct {
	Known          bool
	Raw            int64
	RawAdmitted    int64
	Smooth         int64
	SmoothAdmitted int64
	Rejecting      bool
	Idle           bool // nothing was asked for a whole window
}

// rateUnits is an amount over a time as a fraction of the limit's rate, at most
// the whole: nobody can be given more.
func rateUnits(amount int64, over time.Duration, limit KeyLimit) int64 {
	if amount <= 0 || over <= 0 {
		return 0
	}
	perSecond := limit.Rate
	if perSecond <= 0 {
		return Unit // slower than a micro-token a second: any use is more
	}
	// amount/over as a share of perSecond; each step stays below 2^63 because
	// amounts above 2^20 seconds of the whole rate are cut first.
	if amount/perSecond >= 1<<20 {
		return Unit
	}
	whole, rest := amount/perSecond, amount%perSecond
	seconds := whole<<30 + mulDiv(rest, 1<<30, perSecond) // in 2^-30 seconds of the rate
	return min(mulDiv(seconds, int64(time.Second), int64(over))>>10, Unit)
}

// approach moves a smoothed value towards a raw one over dt, with the half-life of
// its direction; between half-lives it is linear, which is within 6 % of 2^-x.
func approach(smooth, raw int64, dt time.Duration) int64 {
	half := halfLifeUp
	if raw < smooth {
		half = halfLifeDown
	}
	diff := smooth - raw
	halvings := min(int64(dt/half), 62)
	diff >>= halvings
	if diff < 0 && halvings > 0 {
		diff++ // towards zero
	}
	rest := dt % half
	diff -= mulDiv(diff, int64(rest), 2*int64(half))
	return raw + diff
}
