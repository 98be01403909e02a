package recall

import (
	"math/rand/v2"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
)

// TestNoLossGivesAnything: whatever becomes of calls when a store loses its contents, and of those that it decided
// before, all that clients get of a key is what its limit allows.
func TestNoLossGivesAnything(t *testing.T) {
	for _, a := range limit.Algorithms() {
		if a == limit.Concurrency {
			continue
		}
		t.Run(a.String(), func(t *testing.T) {
			for seed := range uint64(3000) {
				newLoss(t, a, seed).run()
			}
		})
	}
}

// loss is a store that loses its contents, and a daemon whose calls are delayed, lost, and answered late.
type loss struct {
	t      *testing.T
	rand   *rand.Rand
	seed   uint64
	limit  limit.Limit
	now    budget.Instant
	table  *Table
	record limit.Record // of the present contents
	stamp  uint32       // names them
	birth  int64
	seen   uint32       // the contents that the daemon knows of
	ideal  limit.Record // what the limit holds for all that clients really got
	calls  []*lossCall
}

type lossCall struct {
	call
	view limit.View
}

func newLoss(t *testing.T, a limit.Algorithm, seed uint64) *loss {
	l := &loss{t: t, rand: rand.New(rand.NewPCG(seed, 0)), seed: seed, now: 100 * second, stamp: 1, seen: 1, limit: limit.Limit{Algorithm: a, Capacity: 100 * limit.Token, Window: 10 * time.Second}}
	l.record = limit.Record{Stamp: 1, At: 1}
	if !a.Counts() {
		l.limit.Capacity, l.limit.Rate, l.limit.Window = bucket.Capacity, bucket.Rate, 0
		l.record.Tokens = bucket.Capacity
	}
	l.ideal, l.table = l.record, New(4, 0)
	return l
}

// between is a number from least to most.
func (l *loss) between(least, most int) int { return least + l.rand.IntN(most-least+1) }

// charge is one of the daemon's requests now.
func (l *loss) charge(cost int) Charge {
	c := charge(l.limit, 1, cost, l.now)
	c.Full = 24 * time.Second
	return c
}

func (l *loss) view() limit.View {
	return limit.View{Algorithm: l.limit.Algorithm, Window: l.limit.Window.Microseconds(), Phase: limit.Floor, Stamp: 1, Floor: limit.Bucket{Cap: l.limit.Capacity, Rate: l.limit.Rate}}
}

// got is what a client got; the limit must hold it.
func (l *loss) got(cost limit.Tokens) {
	records, out := []limit.Record{l.ideal}, make([]limit.Outcome, 1)
	if !limit.Take(records, []limit.View{l.view()}, cost, int64(l.now)/1000, out) {
		l.t.Fatalf("seed %d: %d admitted where the limit holds %d", l.seed, cost, out[0].Tokens)
	}
	l.ideal = records[0]
}

func (l *loss) run() {
	for range l.between(1, 50) {
		switch l.between(0, 9) {
		case 0:
			l.now += budget.Instant(l.between(1, 4000)) * second / 1000
		case 1, 2:
			l.send()
		case 3, 4:
			l.execute()
		case 5, 6:
			l.land()
		case 7:
			l.lose()
		default:
			l.decide()
		}
	}
	for c := l.charge(1); l.table.Decide([]Charge{c}, false, l.now, make([]limit.Outcome, 1)); {
		l.got(c.Cost) // all that is left by what the daemon knows
	}
	for _, cost := range []int{64, 32, 16, 8, 4, 2, 1} {
		l.sendFor(cost) // and by what the store does
		l.decided(l.calls[len(l.calls)-1])
	}
}

// lose empties the store, lets the daemon see that it has other contents, or both.
func (l *loss) lose() {
	if l.between(0, 1) == 1 {
		l.stamp++
		l.record, l.birth = limit.Record{}, int64(l.now)/1000
	}
	if l.between(0, 1) == 1 {
		l.see()
	}
}

func (l *loss) see() {
	if l.seen == l.stamp {
		return
	}
	l.seen = l.stamp
	l.now += 1000
	if l.between(0, 3) > 0 {
		l.table.HoldsUntil(l.now + 1)
	}
	l.table.Emptied(l.now)
}

func (l *loss) send() { l.sendFor(l.between(1, 60)) }

func (l *loss) sendFor(cost int) {
	if l.seen != l.stamp { // a call of earlier contents is refused; the next one knows the present ones
		l.see()
	}
	c := &lossCall{call: call{charge: l.charge(cost), deadline: l.now + second/2}}
	c.debit = l.table.Carry(&c.charge, l.table.Call(), l.now)
	c.view = l.view()
	c.view.Debit, c.view.Memory, c.view.Stamp, c.view.Birth = c.debit.Amount, l.table.Memory(&c.charge, l.now), l.stamp, l.birth
	l.table.Sent(&c.ticket, &c.charge, l.now)
	l.calls = append(l.calls, c)
}

func (l *loss) pick(of func(*lossCall) bool) *lossCall {
	var some []*lossCall
	for _, c := range l.calls {
		if of(c) {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[l.between(0, len(some)-1)]
}

// execute has the store decide a call in time, answered or not.
func (l *loss) execute() {
	c := l.pick(func(c *lossCall) bool { return !c.executed && l.now <= c.deadline && c.view.Stamp == l.stamp })
	if c == nil {
		return
	}
	if l.between(0, 1) == 1 { // else at the time of the one before, as those of one call are
		l.now += 1000
	}
	l.decided(c)
}

// decided has the store decide a call.
func (l *loss) decided(c *lossCall) {
	records, out := []limit.Record{l.record}, make([]limit.Outcome, 1)
	c.executed, c.at = true, int64(l.now)/1000
	c.allowed = limit.Take(records, []limit.View{c.view}, c.charge.Cost, c.at, out)
	l.record, c.out = records[0], out[0]
	if c.allowed && !c.fromMemory {
		l.got(c.charge.Cost)
	}
}

// land ends a call for the daemon: with its answer, or without one.
func (l *loss) land() {
	c := l.pick(func(c *lossCall) bool { return c.ticket.state == underway })
	if c == nil {
		return
	}
	c.charge.Own = nil
	if c.executed && (l.between(0, 1) == 1) {
		l.table.Answered(&c.ticket, &c.charge, c.allowed, c.out, c.debit, c.at, l.now)
		return
	}
	l.table.Lost(&c.ticket, &c.charge, c.deadline)
	l.table.Paid(c.charge.Key, c.debit, false)
}

// decide admits from memory, a request of its own or the one of a call that was given up.
func (l *loss) decide() {
	own := l.pick(func(c *lossCall) bool { return !c.fromMemory && c.ticket.state != refused })
	one := l.charge(l.between(1, 60))
	if own != nil && (l.between(0, 1) == 1) {
		one.Cost, one.Own = own.charge.Cost, &own.ticket
	} else {
		own = nil
	}
	if !l.table.Decide([]Charge{one}, false, l.now, make([]limit.Outcome, 1)) {
		return
	}
	counted := own != nil && own.executed && own.allowed // the client has it already
	if own != nil {
		own.fromMemory = true
	}
	if !counted {
		l.got(one.Cost)
	}
}
