package budget

import (
	"fmt"
	"slices"
	"time"
)

// RegionEvent is something that happened to a region; see Region.Step.
type RegionEvent interface{ regionEvent() }

// HelloAnswered is the answer to a Hello, with the configuration it carried.
type HelloAnswered struct {
	OK                HelloOK
	Config            Config
	InitialRedisEpoch string
}

// DirectiveReceived is the answer to a Report.
type DirectiveReceived struct{ Directive Directive }

// CallFailed: the Hello or Report in flight was refused, lost or not answered.
type CallFailed struct {
	// Busy: the Hello was refused with ErrRegionBusy. Another daemon of the
	// region is being heard, so this one must not take the floor back: the other
	// may have lent it.
	Busy bool
}

// SharesApplied answers ApplyShares, whole.
type SharesApplied struct{ Results []ShareResult }

// ShareResult is the outcome of one ShareChange; amounts are micro-tokens. Failed
// means that the change may or may not have reached the store, or came too late, or
// that the store has seen a later one: what it enforces is not what was asked.
type ShareResult struct {
	Key      KeyID
	Released int64
	Tokens   int64
	Amnesia  bool
	Failed   bool
}

// StoreEpoch tells the identity of the store's contents: at the start, and when
// it has changed.
type StoreEpoch struct{ Epoch string }

// StoreLost: a record of a hot key was missing from the store.
type StoreLost struct{}

// RegionTick lets time pass.
type RegionTick struct{}

func (HelloAnswered) regionEvent()     {}
func (DirectiveReceived) regionEvent() {}
func (CallFailed) regionEvent()        {}
func (SharesApplied) regionEvent()     {}
func (StoreEpoch) regionEvent()        {}
func (StoreLost) regionEvent()         {}
func (RegionTick) regionEvent()        {}

// RegionEffect is something the shell is to do; see Region.Step.
type RegionEffect interface{ regionEffect() }

// SendHello sends a Hello; answered by HelloAnswered or CallFailed.
type SendHello struct{ Hello Hello }

// SendReport sends a Report; answered by DirectiveReceived or CallFailed.
type SendReport struct{ Report Report }

// ApplyShares applies changes in the store; answered by SharesApplied.
type ApplyShares struct{ Changes []ShareChange }

// ShareChange is one share to be applied in the store.
type ShareChange struct {
	Key KeyID
	// Before is the right until now.
	Before Right
	Gen    Gen
	Share  Share
	// Grant is the amount of tokens that comes with it, micro-tokens.
	Grant int64
	// Cold ends the key's share: the record becomes a cold one.
	Cold bool
	// Limit is zero if neither this region nor the leader knows it.
	Limit KeyLimit
}

func (SendHello) regionEffect()   {}
func (SendReport) regionEffect()  {}
func (ApplyShares) regionEffect() {}

// Step takes one event at one instant and returns what is to be done about it, in
// order.
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
		r.callFailed(now)
	case SharesApplied:
		r.sharesApplied(e.Results, now)
		return r.speak(now)
	case StoreEpoch:
		r.storeIs(e.Epoch)
	case StoreLost:
		r.doubt()
	case RegionTick:
		return r.speak(now)
	default:
		panic(fmt.Sprintf("budget: unknown region event %T", ev))
	}
	return nil
}

// doubt closes the session. Shares and lease stay as they are until they expire.
// A session that is about to open does not.
func (r *Region) doubt() {
	r.session = session{}
	if r.applying != nil {
		r.applying.void = true
	}
}

// noticeLeaseEnd closes the session when the lease has ended: the leader may have
// given away what it covered, so shares must be told anew.
func (r *Region) noticeLeaseEnd(now Instant) {
	if r.leaseEnd != 0 && now >= r.leaseEnd {
		r.leaseEnd = 0
		r.doubt()
	}
}

func (r *Region) storeIs(epoch string) {
	if r.storeEpoch == epoch {
		return
	}
	if r.storeEpoch != "" {
		r.doubt()
	}
	r.storeEpoch = epoch
}

func (r *Region) callFailed(now Instant) {
	failed := r.inFlight
	r.inFlight = noCall
	r.doubt()
	if failed == helloCall {
		r.helloFails = min(r.helloFails+1, 4)
	}
	r.nextHello = now.Add(50 * time.Millisecond << r.helloFails)
}

// speak sends what is due: a Hello without a session, else a Report.
func (r *Region) speak(now Instant) []RegionEffect {
	if r.inFlight != noCall || r.applying != nil {
		return nil
	}
	if !r.session.open {
		return r.sayHello(now)
	}
	if now.Sub(r.session.lastSent) < minReportGap {
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
		Region: r.self, Incarnation: r.incarnation, RedisEpoch: r.storeEpoch, Nonce: r.helloNonce,
		Held: make([]Held, 0, len(r.hot)),
	}
	for k, e := range r.hot {
		h.Held = append(h.Held, Held{Key: k, Gen: e.gen, Share: e.share})
	}
	slices.SortFunc(h.Held, func(a, b Held) int { return a.Key.Compare(b.Key) })
	return []RegionEffect{SendHello{h}}
}

func (r *Region) helloAnswered(e HelloAnswered, now Instant) []RegionEffect {
	if r.inFlight != helloCall || e.OK.Nonce != r.helloNonce {
		return nil // an answer to an older Hello opens nothing
	}
	r.inFlight = noCall
	if e.OK.Epoch < r.highestEpoch || r.applying != nil || r.helloEpoch != r.storeEpoch {
		// An old leader; or the leader was told of store contents that are gone.
		r.nextHello = now.Add(50 * time.Millisecond)
		return nil
	}
	r.helloFails = 0
	r.cfg, r.initialEpoch = e.Config, e.InitialRedisEpoch
	r.self = e.OK.Region
	r.highestEpoch = e.OK.Epoch
	r.lastDirective = now
	for _, h := range r.hot {
		h.admitted, h.offered, h.released, h.granted = 0, 0, 0, 0
	}
	a := &applying{hello: true, epoch: e.OK.Epoch, session: e.OK.Session, watermark: e.OK.Watermark}
	return r.apply(a, e.OK.Actions, now)
}

func (r *Region) directiveReceived(d Directive, now Instant) []RegionEffect {
	if r.inFlight != reportCall {
		return nil
	}
	s := &r.session
	if !s.open {
		r.inFlight = noCall // the answer to a report of a session that is over
		return nil
	}
	if d.Epoch == s.epoch && d.Session == s.id && d.Seq < s.seq {
		return nil // a duplicate
	}
	if d.Epoch != s.epoch || d.Session != s.id || d.Seq != s.seq || d.TSend != s.tSend {
		r.callFailed(now)
		return nil
	}
	r.inFlight = noCall
	r.lastDirective = now
	return r.apply(&applying{
		epoch: d.Epoch, session: d.Session, seq: d.Seq, renew: d.Renew, tSend: d.TSend,
	}, d.Actions, now)
}

// apply hands a directive's actions to the store; the directive counts as applied
// only when all of them are.
func (r *Region) apply(a *applying, actions []Action, now Instant) []RegionEffect {
	r.applying = a
	a.left = make(map[KeyID]Action, len(actions))
	changes := make([]ShareChange, 0, len(actions))
	for _, act := range actions {
		a.left[act.Key] = act
		changes = append(changes, r.change(act, now))
	}
	if len(changes) == 0 {
		r.finishApplying(now)
		return r.speak(now)
	}
	return []RegionEffect{ApplyShares{changes}}
}

func (r *Region) change(act Action, now Instant) ShareChange {
	c := ShareChange{
		Key: act.Key, Gen: act.Gen, Share: act.Share, Cold: act.Cold,
		Limit: act.Limit,
	}
	// A key that was not held starts its count at what the directive says: it
	// may have been held, and granted, earlier in the session.
	if h := r.hot[act.Key]; h != nil {
		if h.limit.Capacity > 0 {
			c.Limit = h.limit
		}
		c.Grant = max(0, act.Granted-h.granted)
		h.granted = act.Granted // counted once, even if the store fails now
	}
	c.Before = r.Right(act.Key, c.Limit.Capacity, now)
	return c
}

func (r *Region) sharesApplied(results []ShareResult, now Instant) {
	a := r.applying
	if a == nil {
		return
	}
	failed := false
	for _, res := range results {
		act, ok := a.left[res.Key]
		if !ok {
			continue
		}
		if res.Failed {
			failed = true
			continue
		}
		delete(a.left, res.Key)
		failed = failed || res.Amnesia
		r.took(act, res)
	}
	if failed || len(a.left) > 0 {
		r.applying = nil
		r.doubt()
		r.nextHello = now.Add(50 * time.Millisecond)
		return
	}
	r.finishApplying(now)
}

// took records a share that the store now enforces.
func (r *Region) took(act Action, res ShareResult) {
	if r.watermark.Before(act.Gen) {
		r.watermark = act.Gen
	}
	h := r.hot[act.Key]
	if act.Cold {
		if h != nil {
			delete(r.hot, act.Key)
		}
		delete(r.candidates, act.Key)
		r.coldAcks = append(r.coldAcks, act)
		return
	}
	if h == nil {
		h = &hotKey{granted: act.Granted, limit: act.Limit}
		if c := r.candidates[act.Key]; c != nil {
			h.limit, h.rejecting = c.limit, c.rejecting
			delete(r.candidates, act.Key)
		}
		r.hot[act.Key] = h
	}
	h.gen, h.share = act.Gen, act.Share
	h.released += res.Released
	h.tokens = res.Tokens
	h.mustAck = true
	r.queue(act.Key, h)
}

// finishApplying makes the directive count: its session opens, or its lease holds.
func (r *Region) finishApplying(now Instant) {
	a := r.applying
	r.applying = nil
	if a.void {
		r.nextHello = now.Add(50 * time.Millisecond)
		return
	}
	if a.hello {
		r.session = session{open: true, epoch: a.epoch, id: a.session}
		if r.watermark.Before(a.watermark) {
			r.watermark = a.watermark
		}
		r.blind = false
		r.coldAcks = nil
		return
	}
	s := &r.session
	s.ack = a.seq
	if !a.renew {
		return
	}
	if r.Phase(now) != Live {
		r.liveSince = now
	}
	r.leaseEnd = a.tSend.Add(r.cfg.Lease)
}
