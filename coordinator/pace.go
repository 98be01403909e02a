package coordinator

import (
	"time"

	"aliquot/budget"
)

const (
	// paceKept is how long the smallest round trip is remembered at least, and at most
	// twice that: a way that has become longer is noticed then.
	paceKept = 5 * time.Minute
	// quorumWeight is that of the newest commit in the mean, one in so many.
	quorumWeight = 8
)

// pace is what this node measures, while it leads, of the time that messages and
// commits take. It belongs to the goroutine of the reigns and outlives each of them.
type pace struct {
	regions []roundTrip
	quorum  time.Duration // mean of the latest commits; 0: none
}

// roundTrip is the smallest time seen between an answer to a region and the report
// that acknowledges it: the way there and back, with nothing to wait for but the
// region's store. 0: not measured.
type roundTrip struct {
	session, seq   uint64         // of the answer that awaits its report
	sent           budget.Instant // 0: none does
	latest, before time.Duration  // smallest since shelf, and in the time before
	shelf          budget.Instant
	keys           time.Duration // the pace at which the region reports busy keys
}

// answered notes that an answer goes out.
func (p *pace) answered(region int, session, seq uint64, now budget.Instant) {
	p.regions = reach(p.regions, region)
	r := &p.regions[region]
	r.session, r.seq, r.sent = session, seq, now
}

// reported takes a report that has just come in.
func (p *pace) reported(rep budget.Report, now budget.Instant) {
	if rep.Region >= len(p.regions) {
		return
	}
	r := &p.regions[rep.Region]
	if r.sent == 0 || r.session != rep.Session || r.seq != rep.Ack {
		return
	}
	took := now.Sub(r.sent)
	r.sent = 0
	if r.latest == 0 || now.Sub(r.shelf) >= paceKept {
		r.latest, r.before, r.shelf = took, r.latest, now
	}
	r.latest = min(r.latest, took)
}

// committed takes the time of a commit.
func (p *pace) committed(took time.Duration) {
	if p.quorum == 0 {
		p.quorum = took
		return
	}
	p.quorum += (took - p.quorum) / quorumWeight
}

// newReign: sessions begin anew, and what was sent in an old one awaits nothing.
func (p *pace) newReign() {
	for i := range p.regions {
		p.regions[i].sent = 0
	}
}

// spaced notes how far apart a region's reports of one busy key are, as a report says
// that the machine has accepted.
func (p *pace) spaced(region int, keys time.Duration) { p.regions[region].keys = keys }

// keys is how far apart the region's reports of one busy key are; 0 if it was not heard.
func (p *pace) keys(region int) time.Duration {
	if region >= len(p.regions) {
		return 0
	}
	return p.regions[region].keys
}

// smallest is the region's round trip, 0 if it was not measured.
func (p *pace) smallest(region int) time.Duration {
	if region >= len(p.regions) {
		return 0
	}
	r := &p.regions[region]
	if r.before == 0 {
		return r.latest
	}
	return min(r.latest, r.before)
}
