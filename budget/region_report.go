package budget

import (
	"iter"
	"slices"
	"time"
)

// sendReport sends what changed since the last report: acknowledgements at once, busy keys at the
// report interval, and the cold keys that ask to become hot. While the session is being opened, it
// acknowledges what has been applied so far and asks for nothing.
func (r *Region) sendReport(now Instant) []RegionEffect {
	s := &r.session
	s.seq++
	s.tSend, s.lastSent = now, now
	r.inFlight = reportCall
	rep := Report{
		Region: r.self, Epoch: s.epoch, Session: s.id, Seq: s.seq, TSend: now, Ack: s.ack, Rules: r.rules, Pace: r.pace(),
		Unreached: r.unreached,
	}
	if r.opening() {
		rep.Opening = true
		rep.Keys = r.hotReports(nil, rep.Pace, now)
		return []RegionEffect{SendReport{rep}}
	}
	rep.Keys = r.coldReports(rep.Keys)
	rep.Keys = r.hotReports(rep.Keys, rep.Pace, now)
	rep.Keys = r.candidateReports(rep.Keys, now)
	r.urgent = false
	return []RegionEffect{SendReport{rep}}
}

// coldReports acknowledges the keys that returned to cold.
func (r *Region) coldReports(out []KeyReport) []KeyReport {
	for _, act := range r.coldAcks {
		out = append(out, KeyReport{Key: act.Key, Gen: act.Gen, Share: act.Share, Cold: true})
	}
	r.coldAcks = nil
	return out
}

// pace returns the interval between the reports of one busy key. It grows with the number of keys
// that have something to report.
func (r *Region) pace() time.Duration {
	return min(max(time.Duration(len(r.reportable))*keyReportTakes, ReportKeyEvery), maxPace)
}

// waitsForShare is how long after the latest request, which was refused, a check may still wait for the
// share.
const waitsForShare = time.Second

// hotReports reports a key at once if it has an acknowledgement or begins to reject, and otherwise
// at the report interval. While few keys are busy, one that begins to reject takes along all others
// that reject. A home whose latest request was admitted after others were refused is reported again,
// because no other request may come that shows that it refuses nobody any more.
func (r *Region) hotReports(out []KeyReport, pace time.Duration, now Instant) []KeyReport {
	few := pace == ReportKeyEvery
	waiting := r.reportable[:0]
	for _, k := range r.reportable {
		h := r.hot[k]
		if h == nil {
			continue
		}
		if h.unenforced {
			h.queued = false
			continue
		}
		due := h.mustAck || h.lastReport == 0 || now.Sub(h.lastReport) >= pace || h.rejecting && (!h.reportedRejecting || few && r.urgent)
		if !due || len(out) >= maxReportKeys {
			waiting = append(waiting, k)
			continue
		}
		limit, label := h.limit, h.label
		switch {
		case !h.asked:
			// The limit may be of older rules than this report. The leader is told of which windows the label is.
			limit = KeyLimit{}
			if label != 0 {
				limit.Tail = h.labelTail
			}
		case limit.Tail != h.labelTail:
			label = 0
		}
		homed := r.cfg.Homed(h.limit)
		if homed && h.reportedRejecting && !h.served && now.Sub(h.used) < waitsForShare && h.share.Rate <= r.toldFloor().Rate {
			h.rejecting = true
		}
		out = append(out, KeyReport{
			Key: k, Gen: h.gen, Share: h.share, Limit: limit,
			Admitted: h.admitted, Offered: h.offered, Released: h.released,
			Tokens: h.tokens, Rejecting: h.rejecting, Idle: h.idle(now), Gap: h.gap, InUse: h.inUse, Label: label,
			Refunded: h.refunded,
		})
		h.reportedRejecting, h.reportedReleased = h.rejecting, h.released
		h.toldAdmitted, h.toldRefunded = h.admitted, h.refunded
		h.queued = h.rejecting && h.served && homed
		if h.queued {
			waiting = append(waiting, k)
		}
		h.mustAck, h.rejecting, h.asked, h.lastReport = false, false, false, now
	}
	r.reportable = slices.Clip(waiting)
	return out
}

// Reports reports whether a key is hot, and whether the reports of a session tell what is admitted of it now.
func (r *Region) Reports(k KeyID) (hot, told bool) {
	h := r.hot[k]
	return h != nil, h != nil && !h.unenforced && r.session.exists()
}

// Untold returns, after a session has ended, what was admitted of hot keys that none of its reports
// has told. Ages are at now.
func (r *Region) Untold(now Instant) iter.Seq[Spent] {
	return func(yield func(Spent) bool) {
		for k, h := range r.hot {
			if h.admitted <= h.toldAdmitted || h.limit.Capacity == 0 || h.lastReport == 0 {
				continue
			}
			s := Spent{
				Key: k, Limit: h.limit, Admitted: h.admitted - h.toldAdmitted, Refunded: h.refunded - h.toldRefunded,
				Age: now.Sub(h.lastReport),
			}
			if !yield(s) {
				return
			}
		}
	}
}

// idle returns how long the key has been unused; 0 if it was never used.
func (h *hotKey) idle(now Instant) time.Duration {
	if h.used == 0 {
		return 0
	}
	return now.Sub(h.used)
}

// candidateReports repeats every candidate until it is hot or unused. New ones go first.
func (r *Region) candidateReports(out []KeyReport, now Instant) []KeyReport {
	room := max(0, maxReportKeys-len(out))
	asking, asked := r.asking, r.asked
	r.asking = nil
	for n, c := range asking {
		if room == 0 {
			r.asking = slices.Clone(asking[n:])
			break
		}
		out, room = r.ask(c, out, room, now)
	}
	n := 0
	for n < len(asked) && room > 0 && (asked[n].gone || now.Sub(asked[n].lastReport) >= r.repeatAfter()) {
		out, room = r.ask(asked[n], out, room, now)
		n++
	}
	r.asked = slices.Delete(r.asked, 0, n)
	return out
}

// repeatAfter returns the interval between requests for one key. Thousands of requests that stay
// unanswered, because the hot table is full, must cost no more than a few thousand.
func (r *Region) repeatAfter() time.Duration {
	return repeatCandidate * time.Duration(1+len(r.asked)/asksAtOnce)
}

// ask reports a candidate, unless it is none any more.
func (r *Region) ask(c *candidate, out []KeyReport, room int, now Instant) ([]KeyReport, int) {
	switch {
	case c.gone:
		return out, room
	case now.Sub(c.lastUsed) > candidateIdle:
		r.dropCandidate(c.key)
		return out, room
	}
	c.lastReport = now
	r.asked = append(r.asked, c)
	return append(out, KeyReport{
		Key: c.key, Limit: c.limit, Admitted: c.admitted, Offered: c.offered,
		Tokens: c.tokens, Rejecting: c.rejecting,
	}), room - 1
}
