package budget

import "time"

// Intervals of the protocol. Each is a compromise between traffic and reaction time. Safety depends
// on none of them.
const (
	// MinReportGap keeps a region from reporting more often than the leader ticks.
	MinReportGap = 20 * time.Millisecond
	// ReportKeyEvery is the interval between reports of one busy key while few keys are busy. Each
	// busy key adds keyReportTakes to the region's interval. Ten regions with thousands of busy
	// keys so send the leader 200,000 key reports a second together.
	ReportKeyEvery = 100 * time.Millisecond
	keyReportTakes = 50 * time.Microsecond
	// maxPace is the report interval of a region in which the whole hot table is busy.
	maxPace = MaxHotKeys * keyReportTakes
	// AnswerHold is how long the leader holds a report open while it has nothing to send.
	AnswerHold = 100 * time.Millisecond
	// renewEvery is the interval between lease renewals: ten chances in a lease of ten seconds.
	renewEvery = time.Second
	// candidateIdle is the pause after which a region drops a cold key that asked to become hot.
	candidateIdle = 2 * time.Second
	// progressEvery is the interval between the reports of a region that is applying the answer to
	// its Hello.
	progressEvery = 500 * time.Millisecond
	// retryHello is the first pause before the next Hello. The pause doubles each time.
	retryHello = 50 * time.Millisecond
	// repeatCandidate is the interval between requests for one key to become hot.
	repeatCandidate = 500 * time.Millisecond
	// asksAtOnce is how many keys a region asks for within repeatCandidate before it slows down.
	asksAtOnce = 2048
	// busyAfter is the silence after which another daemon may take over a region: three reports,
	// one a second.
	busyAfter = 3 * time.Second
	// ObservedWithin bounds how long after a decision a region's counters have it: two calls to the store, and the
	// intervals in which a daemon adds up what its memory has decided.
	ObservedWithin = 300 * time.Millisecond
	// MarkEvery is the interval between the marks in the store that say the region is heard; see
	// ApplyShares.
	MarkEvery = time.Second
	// sweepEvery is the interval between searches for keys that can cool down.
	sweepEvery = time.Second
	// minCoolAfter keeps a key hot through a short pause.
	minCoolAfter = 10 * time.Second
)

// SessionHolds returns how long a daemon keeps its region's session after it sent a report that was
// answered. The leader gives the session to no other daemon before. The duration is measured by a
// clock within rhoPPM millionths of the leader's.
func SessionHolds(rhoPPM int64) time.Duration {
	return busyAfter - busyAfter*time.Duration(rhoPPM)/(1_000_000+time.Duration(rhoPPM)) - 1
}

// Limits on everything that grows with the number of clients.
const (
	// MaxHotKeys caps the hot table. A key refused here stays at its floors.
	MaxHotKeys = 200_000
	// maxCandidates caps the cold keys a region asks about.
	maxCandidates = 50_000
	// maxReportKeys and maxActions bound one message to about a megabyte.
	maxReportKeys = 8192
	maxActions    = 8192
	// applyPart bounds one ApplyShares: a script call of a few milliseconds.
	applyPart = 128
	// maxTokens is the largest capacity and the largest rate a second: 1e9 tokens.
	maxTokens = 1_000_000_000 * microToken
	// maxPlanKeys bounds one log entry to about 256 KiB with ten regions.
	maxPlanKeys = 2048
	// maxPlanCreates caps the new keys in a plan, so that keys which must shrink have room.
	maxPlanCreates = maxPlanKeys / 2
	// maxPlanLooks and sweepKeys bound the work of one tick, however many keys have changed.
	// Planning takes some 50 ms, and the search for keys to cool down less than one. A round over a
	// full hot table takes a second.
	maxPlanLooks = 8192
	sweepKeys    = 4096
	// maxWelcomeKeys bounds how many shares one step settles for the Hellos it answers, beyond the
	// first Hello. Ten Hellos at once take half a second at 100,000 keys, and an answer one step
	// later is soon enough.
	maxWelcomeKeys = 32_768
)

// Lengthen returns d as the slowest clock within rho could measure it: d(1+rho).
func (c *Config) Lengthen(d time.Duration) time.Duration {
	return d + time.Duration((int64(d)/1_000_000+1)*int64(c.RhoPPM))
}

// leaseAtLeader returns T(1+rho). A lease that began before an instant of the leader's clock has
// ended this long after that instant.
func (c *Config) leaseAtLeader() time.Duration { return c.Lengthen(c.Lease) }

// FloorAfter returns 2T(1+rho)^3: how long a region that heard nothing waits before it takes its
// floor back. Worked number: T = 10 s and rho = 2 % give 21.22 s. The leader counts a lender as
// live for T(1+rho) after it sent a directive that the lender acknowledged. Leases renewed in that
// time end within another T(1+rho). The third factor covers the lender's own clock. While T changes
// the longer one counts.
func (c *Config) FloorAfter() time.Duration {
	return c.Lengthen(c.Lengthen(c.Lengthen(2 * c.wait())))
}

// FloorAfterUse returns how long a region that heard nothing waits before it takes back the floor
// of a limit with a tail. What other regions used before they made room may count that much longer.
func (c *Config) FloorAfterUse(tail time.Duration) time.Duration {
	return c.FloorAfter() + c.Lengthen(tail)
}

// ConnectedFloor returns what a region keeps of a key while it is connected and has lent the rest.
// It keeps 2 % of its floor, so all regions together keep 2 %, and at least one whole request of
// the burst. It keeps nothing of a limit that has a home, nor of one whose floor holds less than one
// request: a fraction of a request is of no use to anyone.
func (c *Config) ConnectedFloor(floor Share, limit KeyLimit) Share {
	if c.Homed(limit) {
		return Share{}
	}
	minBurst := int64(microToken)
	if limit.Placement == PlacementAuto {
		if limit.LendsUnused() {
			return keptUnused(floor, limit)
		}
		if Scale(limit.Rate, floor.Rate) < homedBelow*microToken {
			minBurst = homedBelow * microToken
		}
	}
	if limit.Capacity <= 0 || Scale(limit.Capacity, floor.Burst) < minBurst {
		return Share{}
	}
	request := int32((Unit*microToken + limit.Capacity - 1) / limit.Capacity)
	return Share{Rate: floor.Rate / 50, Burst: max(floor.Burst/50, request)}.Min(floor)
}

// keptUnused returns the connected floor of a limit that LendsUnused: a fiftieth of the floor in
// whole requests. The region that asks can so have all but a fiftieth of a large limit, and the
// whole of a small one.
func keptUnused(floor Share, limit KeyLimit) Share {
	kept := Scale(limit.Capacity, floor.Burst/50) / microToken * microToken
	if kept == 0 {
		return Share{}
	}
	part := partOf(kept, limit.Capacity)
	return Share{Rate: part, Burst: part}.Min(floor)
}

// microToken is one whole token in micro-tokens.
const microToken = 1_000_000
