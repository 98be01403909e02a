package budget

import "slices"

// sendReport says what changed since the last report: acknowledgements at once,
// busy keys at their pace, and the cold keys that ask to become hot.
func (r *Region) sendReport(now Instant) []RegionEffect {
	s := &r.session
	s.seq++
	s.tSend, s.lastSent = now, now
	r.inFlight = reportCall
	rep := Report{
		Region: r.self, Epoch: s.epoch, Session: s.id, Seq: s.seq, TSend: now, Ack: s.ack,
	}
	rep.Keys = r.coldReports(rep.Keys)
	rep.Keys = r.hotReports(rep.Keys, now)
	rep.Keys = r.candidateReports(rep.Keys, now)
	r.urgent = false
	return []RegionEffect{SendReport{rep}}
}

// coldReports acknowledges the keys that went back to cold.
func (r *Region) coldReports(out []KeyReport) []KeyReport {
	for _, act := range r.coldAcks {
		out = append(out, KeyReport{Key: act.Key, Gen: act.Gen, Share: act.Share, Cold: true})
	}
	r.coldAcks = nil
	return out
}

func (r *Region) hotReports(out []KeyReport, now Instant) []KeyReport {
	waiting := r.reportable[:0]
	for _, k := range r.reportable {
		h := r.hot[k]
		if h == nil {
			continue
		}
		due := h.mustAck || h.lastReport == 0 || now.Sub(h.lastReport) >= reportKeyEvery || h.rejecting && r.urgent
		if !due || len(out) >= maxReportKeys {
			waiting = append(waiting, k)
			continue
		}
		out = append(out, KeyReport{
			Key: k, Gen: h.gen, Share: h.share, Limit: h.limit,
			Admitted: h.admitted, Offered: h.offered, Released: h.released,
			Tokens: h.tokens, Rejecting: h.rejecting, InUse: h.inUse, Label: h.label,
		})
		h.queued, h.mustAck, h.rejecting, h.lastReport = false, false, false, now
	}
	r.reportable = slices.Clip(waiting)
	return out
}

// candidateReports repeats every candidate until it is hot or has gone quiet.
func (r *Region) candidateReports(out []KeyReport, now Instant) []KeyReport {
	due := make([]KeyID, 0, len(r.candidates))
	for k, c := range r.candidates {
		switch {
		case now.Sub(c.lastUsed) > candidateIdle:
			delete(r.candidates, k)
		case c.lastReport == 0 || now.Sub(c.lastReport) >= repeatCandidate:
			due = append(due, k)
		}
	}
	slices.SortFunc(due, KeyID.Compare)
	for _, k := range due[:min(len(due), max(0, maxReportKeys-len(out)))] {
		c := r.candidates[k]
		c.lastReport = now
		out = append(out, KeyReport{
			Key: k, Limit: c.limit, Admitted: c.admitted, Offered: c.offered,
			Tokens: c.tokens, Rejecting: c.rejecting,
		})
	}
	return out
}
