package site

import (
	"aliquot/budget"
)

// callDeadline is when a daemon gives up on a Hello or a Report.
const callDeadline = 2 * second

// Message is a call of a daemon: a Hello, with the place that it asks for, or a Report.
type Message struct {
	Hello  *budget.Hello
	Place  uint64
	Report *budget.Report
}

// coordinator is a coordinator that a daemon has called.
type coordinator any

// send makes one call to the coordinator that the daemon takes for the leader. It ends at its deadline.
func (n *Node) send(m Message) {
	w := n.w
	n.call++
	n.Calling = true
	n.sent, n.sentAt = w.Now(), n.Now()
	n.deadline = w.Now() + callDeadline
	if !n.waiting {
		n.waiting = true
		w.Plan(callDeadline, (*callTimer)(n))
	}
	w.above.Carry(n, n.call, m)
}

// Arrived handles an answer to call id, with the version of the rules that came with it and what the
// coordinator's clock showed, in microseconds. placeKept: the daemon has the place that it asked for.
func (n *Node) Arrived(id uint64, from coordinator, ev budget.RegionEvent, version uint64, shows int64, placeKept bool) {
	n.takeRules(version)
	n.tellRules()
	if id == n.call && n.Calling {
		n.compare(shows, ev)
		n.comeBack(ev, placeKept)
	}
	n.Answered(id, from, ev)
}

// callTimer is a daemon's deadline of the call in flight. One planned event serves all its calls,
// because most are answered long before.
type callTimer Node

func (t *callTimer) Happen() {
	n := (*Node)(t)
	n.waiting = false
	switch {
	case n.Dead || !n.Calling:
	case n.paused():
		n.waiting = true
		n.w.Plan(n.nap(), t)
	case n.w.Now() < n.deadline:
		n.waiting = true
		n.w.Plan(n.deadline-n.w.Now(), t)
	default:
		n.Answered(n.call, nil, budget.CallFailed{})
	}
}
