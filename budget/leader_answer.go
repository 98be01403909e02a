package budget

import "slices"

// answers releases the reports for which there is something to send, and those that were held long
// enough.
func (l *Leader) answers(now Instant) []LeaderEffect {
	var out []LeaderEffect
	room := maxWelcomeKeys
	for i := range l.regions {
		r := &l.regions[i]
		if room >= len(l.order) || room == maxWelcomeKeys {
			waited := r.hello != nil
			out = append(out, l.welcomeWaiting(i, now)...)
			if waited && r.hello == nil {
				room -= len(l.order)
			}
		}
		if !r.waiting {
			continue
		}
		expired := now.Sub(r.waitSince) >= AnswerHold
		renew := l.renewalDue(r, now) && l.mayRenew(now)
		proved := l.began >= r.waitSince
		if renew && !proved {
			out = append(out, l.prove(now)...)
		}
		news := !r.opening && (len(r.outbox) > 0 || len(r.cold) > 0)
		if renew && !proved && !expired {
			continue // shares wait for the proof too, or a busy region would get no lease
		}
		if news || renew || expired {
			out = append(out, Answer{l.directive(i, renew && proved, now)})
		}
	}
	return out
}

func (l *Leader) renewalDue(r *leaderRegion, now Instant) bool {
	return r.live && (r.renewedAt == 0 || now.Sub(r.renewedAt) >= renewEvery)
}

// mayRenew reports whether everything sent so far is consistent with everything reserved.
func (l *Leader) mayRenew(now Instant) bool { return l.over == 0 && l.graceOver(now) }

// directive answers a region's report with the shares that are due. It renews the region's lease if
// that leaves everything consistent. A region that is still applying the answer to its Hello only
// learns that it was heard.
func (l *Leader) directive(i int, renew bool, now Instant) Directive {
	r := &l.regions[i]
	d := Directive{Region: i, Epoch: l.epoch, Session: r.session, Seq: r.seq, TSend: r.tSend, Others: r.daemons.others(now)}
	r.waiting, r.sentAt = false, now
	if r.opening {
		return d
	}
	told := min(len(r.cold), maxActions)
	d.Actions, r.cold = r.cold[:told:told], slices.Clone(r.cold[told:])
	if told > 0 {
		gen := l.nextGen()
		for n := range d.Actions {
			d.Actions[n].Gen = gen
		}
	}
	n := min(len(r.outbox), maxActions-told)
	if n > 0 {
		// Take the generation after those of the cold keys: one of them may be hot again.
		gen := l.nextGen()
		for _, k := range r.outbox[:n] {
			if key := l.keys[k]; key != nil && key.regions[i].pending {
				d.Actions = append(d.Actions, l.send(i, key, gen))
			}
		}
	}
	r.outbox = slices.Clone(r.outbox[n:])
	if renew && l.mayRenew(now) {
		d.Renew = true
		r.renewedAt = now
		// Another daemon of the region may hold a longer lease of an earlier epoch.
		r.leaseEnd = max(r.leaseEnd, now.Add(l.cfg.leaseAtLeader()))
		l.stats.Renewals++
	}
	return d
}

// send turns a pending share into an action of a generation. A growth that was planned before
// another region fell silent may no longer fit beside that region's floor. It is then cut back to
// what the region has, because leases renewed since then would outlast the silent region's wait for
// its floor.
func (l *Leader) send(i int, key *leaderKey, gen Gen) Action {
	kr := &key.regions[i]
	before := kr.sent
	kr.sent = kr.next
	if !kr.next.Within(before) && l.overdrawn(key) {
		kr.sent, kr.grant = kr.next.Min(before), 0
	}
	kr.pending, kr.acked, kr.outlasted, kr.cold = false, false, false, false
	kr.gen = gen
	kr.granted += kr.grant
	kr.grant = 0
	l.weigh(key)
	return Action{
		Key: key.id, Gen: kr.gen, Share: kr.sent, Granted: kr.granted, Limit: key.limitNow(),
		Cold: key.cooling == goingCold, From: l.firstWindow(key),
	}
}
