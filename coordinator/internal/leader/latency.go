package leader

import (
	"time"

	"aliquot/budget"
)

const (
	// paceKept is how long the smallest round trip is remembered at least, and at most
	// twice that: a way that has become longer is noticed then.
	roundTripKept = 5 * time.Minute
	// quorumWeight is that of the newest commit in the mean, one in so many.
	quorumWeight = 8
)

// pace is what this node measures, while it leads, of the time that messages and
// commits take. It belongs to the goroutine of the reigns and outlives each of them.
type latencyEstimator struct {
	regions []regionLatency
	commit  time.Duration // mean of the latest commits; 0: none
}

// roundTrip is the smallest time seen between an answer to a region and the report
// that acknowledges it: the way there and back, with nothing to wait for but the
// region's store. 0: not measured.
type regionLatency struct {
	session, seq      uint64         // of the answer that awaits its report
	sentAt            budget.Instant // 0: none does
	minNow, minBefore time.Duration  // smallest since shelf, and in the time before
	minSince          budget.Instant
	reportInterval    time.Duration // the pace at which the region reports busy keys
}

// answered notes that an answer goes out.
func (p *latencyEstimator) answerSent(region int, session, seq uint64, now budget.Instant) {
	p.regions = growTo(p.regions, region)
	r := &p.regions[region]
	r.session, r.seq, r.sentAt = session, seq, now
}

// reported takes a report that has just come in.
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

// committed takes the time of a commit.
func (p *latencyEstimator) commitTook(took time.Duration) {
	if p.commit == 0 {
		p.commit = took
		return
	}
	p.commit += (took - p.commit) / quorumWeight
}

// newReign: sessions begin anew, and what was sent in an old one awaits nothing.
func (p *latencyEstimator) forgetSentAnswers() {
	for i := range p.regions {
		p.regions[i].sentAt = 0
	}
}

// spaced notes how far apart a region's reports of one busy key are, as a report says
// that the machine has accepted.
func (p *latencyEstimator) setReportInterval(region int, keys time.Duration) {
	p.regions[region].reportInterval = keys
}

// keys is how far apart the region's reports of one busy key are; 0 if it was not heard.
func (p *latencyEstimator) reportInterval(region int) time.Duration {
	if region >= len(p.regions) {
		return 0
	}
	return p.regions[region].reportInterval
}

// smallest is the region's round trip, 0 if it was not measured.
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
