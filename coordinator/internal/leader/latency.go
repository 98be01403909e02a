package leader

import (
	"time"

	"aliquot/budget"
)

const (
	// roundTripKept is the shortest time for which the smallest round trip is remembered; the longest is
	// twice that. After it a longer network path is noticed.
	roundTripKept = 5 * time.Minute
	// quorumWeight is the weight of the newest commit in the mean: one part in quorumWeight.
	quorumWeight = 8
)

// latencyEstimator measures how long messages and commits take while this node leads. It belongs to the
// goroutine of Leadership.Run and outlives each Loop. The zero value has measured nothing.
type latencyEstimator struct {
	regions []regionLatency
	commit  time.Duration // mean of the latest commits; 0: not measured
}

// regionLatency is the smallest time between an answer to a region and the report that acknowledges it:
// a round trip, with no delay but that of the region's store. 0 means not measured.
type regionLatency struct {
	session, seq      uint64         // of the answer whose report is awaited
	sentAt            budget.Instant // 0: none is awaited
	minNow, minBefore time.Duration  // smallest since minSince, and in the period before
	minSince          budget.Instant
	reportInterval    time.Duration // between two reports of one busy key
}

// answerSent notes that an answer is sent.
func (p *latencyEstimator) answerSent(region int, session, seq uint64, now budget.Instant) {
	p.regions = growTo(p.regions, region)
	r := &p.regions[region]
	r.session, r.seq, r.sentAt = session, seq, now
}

// reportReceived notes a report that has just arrived, and measures the round trip if it acknowledges
// the last answer.
func (p *latencyEstimator) reportReceived(rep budget.Report, now budget.Instant) {
	if rep.Region >= len(p.regions) {
		return
	}
	r := &p.regions[rep.Region]
	if r.sentAt == 0 || r.session != rep.Session || r.seq != rep.Ack {
		return
	}
	took := now.Sub(r.sentAt)
	r.sentAt = 0
	if r.minNow == 0 || now.Sub(r.minSince) >= roundTripKept {
		r.minNow, r.minBefore, r.minSince = took, r.minNow, now
	}
	r.minNow = min(r.minNow, took)
}

// commitTook adds the time of one commit to the mean.
func (p *latencyEstimator) commitTook(took time.Duration) {
	if p.commit == 0 {
		p.commit = took
		return
	}
	p.commit += (took - p.commit) / quorumWeight
}

// forgetSentAnswers forgets the answers whose reports are awaited: the sessions of the next epoch are
// new.
func (p *latencyEstimator) forgetSentAnswers() {
	for i := range p.regions {
		p.regions[i].sentAt = 0
	}
}

// setReportInterval notes the time between a region's reports of one busy key, from a report that the
// state machine has accepted.
func (p *latencyEstimator) setReportInterval(region int, keys time.Duration) {
	p.regions[region].reportInterval = keys
}

// reportInterval returns the time between a region's reports of one busy key; 0 if it is not known.
func (p *latencyEstimator) reportInterval(region int) time.Duration {
	if region >= len(p.regions) {
		return 0
	}
	return p.regions[region].reportInterval
}

// minRoundTrip returns the smallest round trip of a region; 0 if none was measured.
func (p *latencyEstimator) minRoundTrip(region int) time.Duration {
	if region >= len(p.regions) {
		return 0
	}
	r := &p.regions[region]
	if r.minBefore == 0 {
		return r.minNow
	}
	return min(r.minNow, r.minBefore)
}

// growTo returns s with room for the index region.
func growTo[T any](s []T, region int) []T {
	if missing := region + 1 - len(s); missing > 0 {
		return append(s, make([]T, missing)...)
	}
	return s
}
