package site

import (
	"time"

	"aliquot/budget"
	"aliquot/internal/prefetch"
	"aliquot/internal/recall"
	"aliquot/internal/sim/faults"
	"aliquot/internal/sim/rule"
	"aliquot/limit"
)

// ask is one limit of a request to the store.
type ask struct {
	rule  *rule.Rule
	rules budget.RulesState // by which the request is decided
	limit limit.Limit       // by those rules
	right budget.Right
	view  limit.View
	// ticket is the charge of the call. carried is the part of the key's debt that the call
	// carries.
	ticket  recall.Ticket
	carried recall.Debt
	// trip is what the key's chunk has to remember of the call, if brought.
	trip    prefetch.Call
	brought bool
	spent   limit.Tokens // of what the call borrowed, by memory meanwhile
}

// asks prepares a request under some rules. It reuses the memory of out.
func (n *Node) asks(out []ask, rules []*rule.Rule) []ask {
	out = out[:0]
	in := n.rulesInForce()
	for _, r := range rules {
		l := n.limitOf(r)
		right := n.Machine.Right(r.Key, r.KeyLimit(l), n.Now())
		out = append(out, ask{rule: r, rules: in, limit: l, right: right, view: n.view(right, r, l)})
	}
	return out
}

// takeCall is requests of one cost, and the store call that decides those that are not decided
// without it.
type takeCall struct {
	n        *Node
	rules    []*rule.Rule
	asks     []ask
	tries    int         // not decided yet
	here     []Admission // admitted without the store
	errand   bool        // it decides nothing
	cost     limit.Tokens
	epoch    string
	sent     budget.Instant
	began    int64
	deadline int64 // on the store's clock
	sampled  int64 // node.sampled of the map that the deadline was made by
	gone     bool  // its caller has left, and was answered from memory
	over     bool  // answered, or without an answer at its deadline
	given    bool  // its one request was admitted from memory
	rep      taken // the store's answer, in flight
	watched  bool  // it is planned that its caller leaves
	done     func(decided)
}

// newCall returns a call with the values of of. It reuses the memory of a call that is over,
// because most of a run's garbage would be calls.
func (n *Node) newCall(of takeCall) *takeCall {
	var c *takeCall
	if last := len(n.spare) - 1; last >= 0 {
		c, n.spare = n.spare[last], n.spare[:last]
	} else {
		c = new(takeCall)
	}
	of.n, of.asks, of.rep.outs = n, c.asks, c.rep.outs
	*c = of
	return c
}

// spared offers the call's memory for reuse: the call is over and nothing that is planned refers to
// it.
func (c *takeCall) spared() {
	if !c.watched {
		c.n.spare = append(c.n.spare, c)
	}
}

// decided is the result of some requests: what was admitted without the store, and the store's
// answer for the others. It is valid only during the call of done.
type decided struct {
	here []Admission
	rep  taken
}

// Take decides tries requests of one cost until one is denied. All the rules have to hold the cost.
// done, if not nil, is called with the result after the daemon has learned of it, unless the result
// is unknown.
func (n *Node) Take(rules []*rule.Rule, tries int, cost limit.Tokens, done func(decided)) {
	if n.Dead || n.paused() || !n.configured() || n.staleFloors() || len(rules) == 0 {
		return
	}
	c := n.newCall(takeCall{rules: rules, tries: tries, cost: cost, done: done, began: n.w.Now()})
	c.seen()
	if c.decideLocally() {
		c.finish(&taken{})
		c.spared()
		return
	}
	c.asks = n.asks(c.asks, rules)
	if !n.spends() || !n.breaker.passes(n.w.Now()) || n.epoch == "" || n.clockless() {
		c.decideAlone()
		return
	}
	if c.decideSettling() {
		c.finish(&taken{})
		c.spared()
		return
	}
	c.bring()
	c.leave()
}

// leave sends the call.
func (c *takeCall) leave() {
	n := c.n
	c.epoch, c.sent, c.began, c.sampled = n.epoch, n.Now(), n.w.Now(), n.sampled
	c.deadline = n.takenUntil()
	c.charged()
	if n.storeCut() {
		c.watch()
		return
	}
	d := n.w.storeDelay(n.Region)
	n.w.Plan(d, (*arrival)(c))
	breaks := d > milli && n.w.Faults.Strikes(faults.StuckStore, 3)
	if breaks {
		n.w.Plan(n.w.Between(0, min(d, takeDeadline)), (*reset)(c)) // the command runs on
	}
	if breaks || d > callerPatience-2*milli {
		c.watch()
	}
}

// watch plans that the caller leaves in time, and later the deadline.
func (c *takeCall) watch() {
	c.watched = true
	c.n.w.Plan(c.left(callerPatience), (*patience)(c))
	c.n.w.Plan(c.left(takeDeadline), (*deadline)(c))
}

// left returns the time until a call is so old.
func (c *takeCall) left(age int64) int64 { return max(0, c.began+age-c.n.w.Now()) }

// takenUntil returns up to when, on its store's clock, the store accepts a call that the daemon
// makes now.
func (n *Node) takenUntil() int64 { return n.clockMap.Until(n.Now() + budget.Instant(takeLate)) }

// refused reports whether the store would refuse such a call, because its clock was set since the
// daemon read it.
func (n *Node) refused() bool { return n.w.Stores[n.Region].Time() > n.takenUntil() }

// arrival is a call on its way to the store, answering one on its way back, patience one whose caller no longer
// waits, deadline one that the daemon gives up, and reset one whose connection breaks: the store may have decided it, or
// may still do so.
type (
	arrival   takeCall
	answering takeCall
	patience  takeCall
	deadline  takeCall
	reset     takeCall
)

func (a *arrival) Happen() { (*takeCall)(a).arrive() }

func (a *answering) Happen() {
	if c := (*takeCall)(a); c.n.runs(a) {
		c.answer()
		c.spared()
	}
}

func (p *patience) Happen() {
	if c := (*takeCall)(p); !c.over && c.n.runs(p) {
		c.decideAlone()
	}
}

func (d *deadline) Happen() {
	if c := (*takeCall)(d); !c.over && c.n.runs(d) {
		c.giveUp()
	}
}

func (r *reset) Happen() {
	if c := (*takeCall)(r); !c.over && c.n.runs(r) {
		c.giveUp()
	}
}

// finish reports the result to the caller.
func (c *takeCall) finish(rep *taken) {
	if c.done != nil {
		c.done(decided{here: c.here, rep: *rep})
	}
}

// arrive handles the call at the store.
func (c *takeCall) arrive() {
	n, s := c.n, c.n.w.Stores[c.n.Region]
	if n.w.Now() < s.pauseTo {
		if n.w.Plan(s.pauseTo-n.w.Now(), (*arrival)(c)); !c.watched {
			c.watch()
		}
		return
	}
	if n.buried || s.outlived(c.sampled, c.began, takeLate) {
		return
	}
	if now := s.Time(); now > c.deadline {
		n.w.Plan(n.w.Between(milli/20, milli), n.When(func() { c.late(now) }))
		return
	}
	c.rep = s.take(c)
	if n.w.Faults.Strikes(faults.StuckStore, 200) {
		if !c.watched {
			c.watch()
		}
		if n.w.Chance(1, 2) {
			n.w.Plan(n.w.Between(milli/20, milli), (*reset)(c))
		}
		return
	}
	n.w.Plan(n.w.Between(milli/20, milli), (*answering)(c))
}

// late handles a call that the store has refused to decide by its clock. If that clock was set, the
// daemon reads it again.
func (c *takeCall) late(now int64) {
	if c.epoch == c.n.epoch && !c.n.overtaken(c.sent) {
		leapt := c.n.clockMap.Restart(now, c.sent, c.n.Now())
		c.n.sampled = c.began
		c.n.distrust(leapt)
	}
	c.end(true)
}

// end ends a call that has brought no answer. nothing: the store has decided nothing; otherwise it may still decide.
func (c *takeCall) end(nothing bool) {
	if c.over {
		return
	}
	c.over = true
	c.ended(nothing)
	c.lose()
	c.decideAlone()
}

// giveUp ends a call without an answer in time, or without its connection.
func (c *takeCall) giveUp() {
	if !c.over {
		c.n.breaker.done(c.n.w.Now(), false)
		c.end(false)
	}
}

func (c *takeCall) answer() {
	n, rep := c.n, &c.rep
	switch age := n.w.Now() - c.began; {
	case c.over:
	case age > takeDeadline:
		c.giveUp() // the daemon was paused
	case age > callerPatience:
		c.decideAlone()
	}
	if c.over {
		return
	}
	n.breaker.done(n.w.Now(), true)
	if rep.otherEpoch {
		n.learn()
		c.end(true)
		return
	}
	c.over = true
	if c.epoch == n.epoch {
		n.sample(rep.time, c.sent, c.began)
	}
	c.settled(rep)
	c.took(rep)
	if c.errand {
		c.observeLoss(rep.try(0))
		return
	}
	if c.gone {
		for try := range rep.tried() {
			c.observe(rep.try(try), try < rep.admitted)
		}
		return
	}
	c.tries -= rep.admitted
	if holds, _ := c.decidable(); c.tries > 0 && holds > 0 {
		// The chunk that came with the answer holds what the store denied.
		rep.outs = rep.outs[:rep.admitted*rep.limits]
		c.decideLocally()
	}
	for try := range rep.tried() {
		c.observe(rep.try(try), try < rep.admitted)
	}
	for i := range c.asks {
		n.hold(c.asks[i].rule, rep.slotsOf(i))
	}
	c.finish(rep)
}

// observeLoss reports hot keys that the store has lost to the state machine.
func (c *takeCall) observeLoss(outs []limit.Outcome) {
	for i, out := range outs {
		if out.Amnesia {
			c.n.w.Note("store lost a hot key", c.n.Region, int64(c.n.Name), int64(c.asks[i].rule.Key.Rule), 0, 0)
			c.n.step(budget.StoreLost{})
		}
	}
}

// observe reports one decision to the state machine.
func (c *takeCall) observe(outs []limit.Outcome, admitted bool) {
	n, cost := c.n, c.cost
	if c.gone {
		cost = 0 // memory has told what it admitted
	}
	c.observeLoss(outs)
	for i, out := range outs {
		a := &c.asks[i]
		if !admitted && out.Tokens >= c.cost {
			continue // another limit denied it
		}
		n.Machine.Observe(a.rule.Key, budget.Usage{
			Rules: a.rules, Limit: a.rule.KeyLimit(a.limit), Cost: int64(cost), Admitted: admitted,
			Tokens: int64(max(0, out.Tokens)), FloorCap: int64(a.view.Floor.Cap), ColdCap: int64(a.view.Cold().Cap),
		}, n.Now())
	}
}

// Admission is a number of requests that were admitted at once.
type Admission struct {
	N  int
	At time.Duration
}

// Decided is the answer to a request that was made several times at one instant.
type Decided struct {
	Admitted int           // including Here
	At       time.Duration // when the store decided
	Here     []Admission   // admitted without the store
}

// Ask makes the same request n times under some rules, of which one is the caller's own. answer is not
// called if the store has other contents than the daemon knows.
func (n *Node) Ask(rules []*rule.Rule, own *rule.Rule, tries int, cost limit.Tokens, answer func(Decided)) {
	n.Take(rules, tries, cost, func(x decided) {
		if x.rep.otherEpoch {
			return
		}
		d := Decided{Admitted: x.rep.admitted, At: duration(x.rep.at), Here: x.here}
		for _, a := range x.here {
			d.Admitted += a.N
		}
		if x.rep.tried() > x.rep.admitted {
			n.deny(own, tries-d.Admitted-1, cost, &x.rep)
		}
		answer(d)
	})
}

// deny counts requests that were denied at the same instant as the last one that was tried.
func (n *Node) deny(r *rule.Rule, denied int, cost limit.Tokens, rep *taken) {
	if denied == 0 {
		return
	}
	last := rep.try(rep.tried() - 1)[0]
	n.Machine.Observe(r.Key, budget.Usage{
		Rules: n.rulesInForce(), Limit: r.KeyLimit(n.limitOf(r)), Cost: int64(denied) * int64(cost), Tokens: int64(max(0, last.Tokens)),
	}, n.Now())
}
