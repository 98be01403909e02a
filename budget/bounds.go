package budget

import "time"

// Pace of the protocol. Each is a compromise between traffic and reaction time;
// none of them matters for safety.
const (
	// minReportGap keeps a region from reporting more often than the leader ticks.
	minReportGap = 20 * time.Millisecond
	// reportKeyEvery spaces the reports of one busy key, while they are few; each
	// takes keyReportTakes of a region's pace, so that ten regions with thousands of
	// busy keys tell the leader of 200,000 a second together.
	reportKeyEvery = 100 * time.Millisecond
	keyReportTakes = 50 * time.Microsecond
	// maxPace is that of a region in which the whole hot table is busy.
	maxPace = MaxHotKeys * keyReportTakes
	// AnswerHold is how long the leader keeps a report open for something to say.
	AnswerHold = 100 * time.Millisecond
	// renewEvery spaces lease renewals: ten chances in a lease of ten seconds.
	renewEvery = time.Second
	// candidateIdle forgets a cold key that asked to become hot and went quiet.
	candidateIdle = 2 * time.Second
	// progressEvery spaces the reports of a region that applies what a session begins with.
	progressEvery = 500 * time.Millisecond
	// retryHello is the first pause before the next Hello; it doubles.
	retryHello = 50 * time.Millisecond
	// repeatCandidate spaces the requests for one key to become hot.
	repeatCandidate = 500 * time.Millisecond
	// asksAtOnce is how many keys a region asks for in that time before it slows down.
	asksAtOnce = 2048
	// busyAfter is three reports of a second: the silence after which another
	// daemon may take a region over.
	busyAfter = 3 * time.Second
	// MarkEvery spaces the marks in the store that the region is heard; see
	// ApplyShares.
	MarkEvery = time.Second
	// sweepEvery spaces the search for keys that can cool down.
	sweepEvery = time.Second
	// minCoolAfter keeps a key hot through a short pause.
	minCoolAfter = 10 * time.Second
)

// SessionHolds is for how long after a daemon has sent a report that is answered no other one gets its region's
// session, by a clock within rhoPPM millionths of the leader's.
func SessionHolds(rhoPPM int64) time.Duration {
	return busyAfter - busyAfter*time.Duration(rhoPPM)/(1_000_000+time.Duration(rhoPPM)) - 1
}

// Limits on everything that grows with the number of clients.
const (
	// MaxHotKeys caps the hot table; a key refused here stays at its floors.
	MaxHotKeys = 200_000
	// maxCandidates caps the cold keys a region asks about.
	maxCandidates = 50_000
	// maxReportKeys and maxActions bound one message to about a megabyte.
	maxReportKeys = 8192
	maxActions    = 8192
	// applyPart bounds one ApplyShares: a script call of a few milliseconds.
	applyPart = 128
	// maxTokens is the largest capacity, and rate a second: 1e9 tokens.
	maxTokens = 1_000_000_000 * microToken
	// maxPlanKeys bounds one log entry to about 256 KiB with ten regions.
	maxPlanKeys = 2048
	// maxPlanCreates leaves room beside new keys for those that have to shrink.
	maxPlanCreates = maxPlanKeys / 2
	// maxPlanLooks and sweepKeys bound what one tick does, whatever has happened to
	// how many keys: some 50 ms of planning, and less than one of looking for keys
	// to cool down. A round over a full hot table takes a second.
	maxPlanLooks = 8192
	sweepKeys    = 4096
	// maxWelcomeKeys bounds how many shares the Hellos that one step answers settle,
	// beyond the first Hello: ten at once take half a second at 100,000 keys, and a
	// step later is soon enough.
	maxWelcomeKeys = 32_768
)

// lengthen is d as the slowest clock within rho could measure it: d(1+rho).
func (c *Config) lengthen(d time.Duration) time.Duration {
	return d + time.Duration((int64(d)/1_000_000+1)*int64(c.RhoPPM))
}

// leaseAtLeader is T(1+rho): a lease that began before some instant of the
// leader's clock is over this long after it.
func (c *Config) leaseAtLeader() time.Duration { return c.lengthen(c.Lease) }

// FloorAfter is 2T(1+rho)^3, how long a region that heard nothing waits before it
// takes its floor back. Worked number: T = 10 s and rho = 2 % give 21.22 s. The
// leader counts a lender as live for T(1+rho) after the sending of a directive it
// acknowledged, and leases renewed in that time end within another T(1+rho); the
// third factor covers the lender's own clock. While T is changed the longer one counts.
func (c *Config) FloorAfter() time.Duration {
	return c.lengthen(c.lengthen(c.lengthen(2 * c.wait())))
}

// FloorAfterUse is how long a region that heard nothing waits before it takes the floor
// of a limit with a tail back: what others used while they still had room may count that
// much longer.
func (c *Config) FloorAfterUse(tail time.Duration) time.Duration {
	return c.FloorAfter() + c.lengthen(tail)
}

// ConnectedFloor is what a region keeps of a key while it is connected and has
// lent the rest: 2 % of its floor, so that all keep 2 % together, and of the burst
// at least one whole request. A limit that has a home is lent whole, and so is one whose floor is less than one
// request: a fraction of a request is of no use to anyone.
func ConnectedFloor(floor Share, limit KeyLimit) Share {
	least := int64(microToken)
	switch limit.Placement {
	case PlacementHome:
		return Share{}
	case PlacementAuto:
		if limit.lendsUnused() {
			return keptUnused(floor, limit)
		}
		least = homedBelow * microToken
	}
	if limit.Capacity <= 0 || Scale(limit.Capacity, floor.Burst) < least {
		return Share{}
	}
	request := int32((Unit*microToken + limit.Capacity - 1) / limit.Capacity)
	return Share{Rate: floor.Rate / 50, Burst: max(floor.Burst/50, request)}.Min(floor)
}

// keptUnused is the connected floor of a limit that lendsUnused: a fiftieth of the floor in whole
// requests, so that all but a fiftieth of a large limit, and the whole of a small one, is for
// the region that asks.
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
