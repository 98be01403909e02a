package budget

import (
	"fmt"
	"math"
	"slices"
)

// Step applies one event at an instant and returns the effects to carry out, in order.
func (r *Region) Step(ev RegionEvent, now Instant) []RegionEffect {
	r.noticeLeaseEnd(now)
	switch e := ev.(type) {
	case HelloAnswered:
		return r.helloAnswered(e, now)
	case DirectiveReceived:
		return r.directiveReceived(e.Directive, now)
	case CallFailed:
		if e.Busy {
			r.lastDirective = now
		}
		if e.Config != nil && e.Config.Version >= r.cfg.Version {
			r.SetConfig(e.Self, *e.Config, e.InitialRedisEpoch, r.highestEpoch, now)
		}
		r.callFailed(now)
	case SharesApplied:
		return r.sharesApplied(e.Results, now)
	case StoreEpoch:
		r.storeIs(e.Epoch)
	case StoreReach:
		r.unreached = e.Unreached
	case StoreLost:
		r.abandonSession()
	case ClockStopped:
		r.leaseEnd = 0
		r.abandonSession()
	case RulesReplaced:
		r.rulesReplaced(e)
	case RegionTick:
		return r.sendDue(now)
	default:
		panic(fmt.Sprintf("budget: unknown region event %T", ev))
	}
	return nil
}

// NextTick returns the earliest instant at which a RegionTick has an effect or the phase changes,
// if nothing else happens before. If there is none, it returns the latest possible Instant. A
// caller that ticks at a fixed interval need not call it.
func (r *Region) NextTick(now Instant) Instant {
	next := Instant(math.MaxInt64)
	switch {
	case r.inFlight != noCall || r.applying != nil && !r.opening():
	case r.opening():
		next = r.progressDue()
	case r.session.open:
		next = r.session.lastSent.Add(MinReportGap)
	case r.storeEpoch != "":
		next = r.nextHello
	}
	if r.leaseEnd != 0 {
		return min(next, r.leaseEnd)
	}
	if floor := r.floorAt(KeyLimit{}); now < floor {
		return min(next, floor)
	}
	return next
}

// abandonSession closes the session. Shares and lease stay as they are until they expire. A session
// that is about to open does not open.
func (r *Region) abandonSession() {
	r.session = session{}
	if r.applying != nil {
		r.applying.void = true
	}
}

// noticeLeaseEnd closes the session when the lease has ended: the leader may have given away what
// the lease covered, so the region must be told its shares in a new session. It leaves open a
// session that is still being opened. The leader keeps what the region had until the region has
// acknowledged its new shares, and refuses the next report if it has closed the session.
func (r *Region) noticeLeaseEnd(now Instant) {
	if r.leaseEnd != 0 && now >= r.leaseEnd {
		r.leaseEnd = 0
		if !r.opening() {
			r.abandonSession()
		}
	}
}

// opening reports whether the store is applying the answer to the session's Hello.
func (r *Region) opening() bool { return r.session.exists() && !r.session.open }

// progressDue returns when the region next reports its progress with that answer.
func (r *Region) progressDue() Instant {
	return max(r.applying.began, r.session.lastSent).Add(progressEvery)
}

// storeIs handles other store contents. They lack the records of keys that an answer to a Hello
// names, if it was not applied yet: another daemon of the region may have lent these keys.
func (r *Region) storeIs(epoch string) {
	if r.storeEpoch == epoch {
		return
	}
	if r.storeEpoch != "" {
		opening := r.opening()
		r.abandonSession()
		if r.applying != nil && !r.lowerBeliefs() && opening {
			r.blind = true
		}
	}
	r.storeEpoch = epoch
}

func (r *Region) callFailed(now Instant) {
	failed := r.inFlight
	r.inFlight = noCall
	r.abandonSession()
	if failed == helloCall {
		r.helloFails = min(r.helloFails+1, 4)
	}
	r.nextHello = now.Add(retryHello << r.helloFails)
}

// sendDue sends what is due: a Hello if there is no session, otherwise a Report.
func (r *Region) sendDue(now Instant) []RegionEffect {
	switch {
	case r.inFlight != noCall:
		return nil
	case r.opening():
		if now < r.progressDue() {
			return nil
		}
		return r.sendReport(now)
	case r.applying != nil:
		return nil
	case !r.session.open:
		return r.sayHello(now)
	case now.Sub(r.session.lastSent) < MinReportGap:
		return nil
	}
	return r.sendReport(now)
}

func (r *Region) sayHello(now Instant) []RegionEffect {
	if r.storeEpoch == "" || now < r.nextHello {
		return nil
	}
	r.helloNonce++
	r.helloEpoch = r.storeEpoch
	r.inFlight = helloCall
	h := Hello{
		Region: r.self, Incarnation: r.incarnation, RedisEpoch: r.storeEpoch, Nonce: r.helloNonce, Rules: r.rules,
		Held: make([]Held, 0, len(r.hot)), Unreached: r.unreached,
	}
	for k, e := range r.hot {
		h.Held = append(h.Held, Held{Key: k, Gen: e.gen, Share: e.share, Limit: e.limit})
	}
	slices.SortFunc(h.Held, func(a, b Held) int { return a.Key.Compare(b.Key) })
	return []RegionEffect{SendHello{h}}
}

func (r *Region) helloAnswered(e HelloAnswered, now Instant) []RegionEffect {
	if r.inFlight != helloCall || e.OK.Nonce != r.helloNonce {
		return nil // an answer to an older Hello opens nothing
	}
	r.inFlight = noCall
	if !e.OK.Watermark.Valid() || !(Gen{Epoch: e.OK.Epoch}).Valid() || !validGens(e.OK.Actions) {
		r.nextHello = now.Add(retryHello) // no store could keep it
		return nil
	}
	if e.OK.Epoch < r.highestEpoch || e.Config.Version < r.cfg.Version || r.applying != nil || r.helloEpoch != r.storeEpoch {
		// The leader is an old one, or it was told of store contents that are gone.
		r.nextHello = now.Add(retryHello)
		return nil
	}
	r.helloFails = 0
	r.cfg, r.initialEpoch = e.Config, e.InitialRedisEpoch
	r.self = e.OK.Region
	r.adoptFloor(now)
	r.highestEpoch = e.OK.Epoch
	r.lastDirective = now
	for _, h := range r.hot {
		h.admitted, h.offered, h.released, h.reportedReleased, h.granted = 0, 0, 0, 0, 0
		h.refunded, h.toldAdmitted, h.toldRefunded = 0, 0, 0
	}
	r.session = session{epoch: e.OK.Epoch, id: e.OK.Session}
	return r.apply(&applying{hello: true, watermark: e.OK.Watermark}, e.OK.Actions, now)
}

func (r *Region) directiveReceived(d Directive, now Instant) []RegionEffect {
	if r.inFlight != reportCall {
		return nil
	}
	s := &r.session
	if !s.exists() {
		r.inFlight = noCall // the answer to a report of a session that is over
		return nil
	}
	if d.Epoch == s.epoch && d.Session == s.id && d.Seq < s.seq {
		return nil // a duplicate
	}
	if d.Epoch != s.epoch || d.Session != s.id || d.Seq != s.seq || d.TSend != s.tSend || !validGens(d.Actions) {
		r.callFailed(now)
		return nil
	}
	if r.applying != nil && (d.Renew || len(d.Actions) > 0) {
		r.callFailed(now) // no leader sends a directive before the session is open
		return nil
	}
	r.inFlight = noCall
	r.lastDirective = now
	if r.applying != nil {
		s.ack = d.Seq
		return nil
	}
	return r.apply(&applying{seq: d.Seq, renew: d.Renew, tSend: d.TSend}, d.Actions, now)
}

// validGens reports whether a store can keep the generations of all actions.
func validGens(actions []Action) bool {
	return !slices.ContainsFunc(actions, func(a Action) bool { return !a.Gen.Valid() })
}

// rulesReplaced forgets the limits of keys whose rules have changed, until a request or the leader brings the new
// ones. It also forgets the released tokens on their way to the pool, which may be of older limits.
func (r *Region) rulesReplaced(e RulesReplaced) {
	r.rules = e.Rules
	clear(r.candidates)
	r.asking, r.asked = nil, nil
	for k, h := range r.hot {
		h.released = h.reportedReleased
		if e.Same == nil || !e.Same(k.Rule) {
			h.limit.Capacity, h.limit.Rate, h.limit.RateFrac = 0, 0, 0
			h.asked = false
		}
	}
	r.newRules = true
	if r.applying != nil {
		r.applying.oldRules = true
	}
}
