package fleet

import (
	"time"

	"aliquot/budget"
)

// region is one region's daemon as the leader sees it.
type region struct {
	fleet       *Fleet
	self        int
	incarnation uint64
	cut         bool

	open, waiting bool // a session; a call in flight
	epoch         uint64
	session       uint64
	seq           uint64
	nonce         uint64
	held          []held // by the key's number
	acks          []int32
	cold          []budget.KeyReport
	cursor        int
	lastReport    budget.Instant
	keys          []budget.KeyReport // of the latest report; the leader keeps none
}

// held is a region's part in one key.
type held struct {
	gen                                  budget.Gen
	share                                budget.Share
	admitted, offered, released, granted int64
	tokens                               int64
	reported                             budget.Instant
	hot, acking                          bool
}

func (r *region) close() { r.open, r.waiting = false, false }

// demand is what the region asks of a key, in thousandths of the limit.
func (r *region) demand(n int) int64 {
	f := r.fleet
	if f.Idle {
		return 0
	}
	switch i := (r.self - int(f.home[n]) + f.size.Regions) % f.size.Regions; {
	case i == 0 && f.left[n]:
	case i == 0:
		return firstDemand
	case i < f.size.Users:
		return otherDemand
	}
	return 0
}

// speak sends what is due.
func (r *region) speak() {
	switch {
	case r.cut || r.waiting:
	case r.open:
		r.report()
	default:
		r.hello()
	}
}

func (r *region) hello() {
	r.nonce++
	r.waiting = true
	h := budget.Hello{
		Region: r.self, Incarnation: r.incarnation, RedisEpoch: "contents", Nonce: r.nonce,
		Held: make([]budget.Held, 0, len(r.held)),
	}
	for n := range r.held {
		if x := &r.held[n]; x.hot {
			h.Held = append(h.Held, budget.Held{Key: Key(n), Gen: x.gen, Share: x.share, Limit: Limit})
		}
	}
	r.fleet.step("hello", budget.HelloReceived{Hello: h})
}

func (r *region) welcome(ok budget.HelloOK) {
	r.open, r.waiting = true, false
	r.epoch, r.session, r.seq = ok.Epoch, ok.Session, 0
	r.acks, r.cold, r.lastReport = r.acks[:0], nil, r.fleet.now
	for n := range r.held {
		x := &r.held[n]
		x.admitted, x.offered, x.released, x.granted, x.acking = 0, 0, 0, 0, false
	}
	for _, act := range ok.Actions {
		r.apply(act)
	}
}

func (r *region) answer(d budget.Directive) {
	if !r.open || d.Session != r.session {
		return
	}
	r.waiting = false
	for _, act := range d.Actions {
		r.apply(act)
	}
}

func (r *region) apply(act budget.Action) {
	n := number(act.Key)
	x := &r.held[n]
	if act.Cold {
		*x = held{}
		r.cold = append(r.cold, budget.KeyReport{Key: act.Key, Gen: act.Gen, Share: act.Share, Cold: true})
		return
	}
	if act.Share.Burst < x.share.Burst {
		keep := x.tokens * int64(act.Share.Burst) / int64(x.share.Burst)
		x.released += x.tokens - keep
		x.tokens = keep
	}
	x.tokens += act.Granted - x.granted
	x.hot, x.gen, x.share, x.granted = true, act.Gen, act.Share, act.Granted
	if !x.acking {
		x.acking = true
		r.acks = append(r.acks, int32(n))
	}
}

// report acknowledges what was applied, and tells of each busy key at its pace.
func (r *region) report() {
	now := r.fleet.now
	out := append(r.keys[:0], r.cold...)
	r.cold = r.cold[:0]
	acks := min(len(r.acks), maxKeys-len(out))
	for _, n := range r.acks[:acks] {
		r.held[n].acking = false
		out = append(out, r.usage(int(n)))
	}
	r.acks = append(r.acks[:0], r.acks[acks:]...)
	out = r.busy(out, now.Sub(r.lastReport))
	r.keys, r.lastReport = out, now
	r.seq++
	r.waiting = true
	r.fleet.Reports++
	r.fleet.KeyReports += len(out)
	r.fleet.step("report", budget.ReportReceived{Report: budget.Report{
		Region: r.self, Epoch: r.epoch, Session: r.session, Seq: r.seq, TSend: now, Ack: r.seq - 1, Pace: reportEvery, Keys: out,
	}})
}

// busy goes on through the keys, as far as the time since the last report allows.
func (r *region) busy(out []budget.KeyReport, elapsed time.Duration) []budget.KeyReport {
	pass := min(int(int64(len(r.held))*int64(elapsed)/int64(reportEvery))+1, len(r.held))
	for range pass {
		if len(out) >= maxKeys {
			break
		}
		n := r.cursor
		r.cursor = (n + 1) % len(r.held)
		x := &r.held[n]
		switch {
		case r.demand(n) == 0:
		case x.hot:
			out = append(out, r.usage(n))
		case r.demand(n) == firstDemand && (x.reported == 0 || r.fleet.now.Sub(x.reported) >= askEvery):
			x.reported = r.fleet.now
			out = append(out, budget.KeyReport{Key: Key(n), Limit: Limit, Offered: Limit.Rate, Rejecting: true})
		}
	}
	return out
}

// usage is a region's use of a key since it last told: what it asks for, as far as
// its share goes.
func (r *region) usage(n int) budget.KeyReport {
	x := &r.held[n]
	wants, has := r.demand(n), int64(x.share.Rate)*1000/budget.Unit
	if x.reported != 0 {
		ms := r.fleet.now.Sub(x.reported).Milliseconds()
		x.offered += Limit.Rate / 1e6 * wants * ms
		x.admitted += Limit.Rate / 1e6 * min(wants, has) * ms
	}
	x.reported = r.fleet.now
	x.tokens = budget.Scale(Limit.Capacity, x.share.Burst)
	if wants > has {
		x.tokens = 0
	}
	return budget.KeyReport{
		Key: Key(n), Gen: x.gen, Share: x.share, Limit: Limit, Rejecting: wants > has,
		Admitted: x.admitted, Offered: x.offered, Released: x.released, Tokens: x.tokens,
	}
}
