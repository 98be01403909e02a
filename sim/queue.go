package sim

// happening is something that is planned for a true time.
type happening interface{ happen() }

// callback is a happening that is a function. (One is one pointer, so planning it
// costs no more than the closure.)
type callback func()

func (do callback) happen() { do() }

// event is a happening at its time; events of one time happen in the order in which
// they were planned.
type event struct {
	at  int64
	seq uint64
	do  happening
}

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

// queue is a heap of events in which every node has four children: half as deep as
// one of two, and most of a simulation's time would go into it.
type queue []event

const children = 4

func (q *queue) push(e event) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / children
		if !e.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	*q = h
}

// pop takes the earliest event; there has to be one.
func (q *queue) pop() event {
	h := *q
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{} // or what it holds on to would live as long as the queue
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		least, child := i, i*children+1
		for c := child; c < min(child+children, len(h)); c++ {
			if least == i && h[c].before(&last) || least != i && h[c].before(&h[least]) {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = last
	return first
}

// after plans a call for d nanoseconds from now.
func (w *world) after(d int64, do callback) { w.plan(d, do) }

// plan is after for a happening that is no function.
func (w *world) plan(d int64, do happening) {
	w.seq++
	w.queue.push(event{at: w.now + max(d, 0), seq: w.seq, do: do})
}

// run lets true time pass until end, or until something is violated.
func (w *world) run(end int64) {
	for len(w.queue) > 0 && w.queue[0].at <= end && w.failure == nil {
		e := w.queue.pop()
		w.now = e.at
		w.events++
		e.do.happen()
		w.checkShares()
	}
	if w.failure == nil {
		w.now = end
	}
}
