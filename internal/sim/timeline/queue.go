package timeline

// Happening is something that is planned for a true time.
type Happening interface {
	// Happen is called once, at that time.
	Happen()
}

// Callback is a Happening that is a function. (It is one pointer, so planning it costs no more than
// the closure. What is planned most often has its own type, which needs no closure either.)
type Callback func()

// Happen calls the function.
func (do Callback) Happen() { do() }

// event is the true time of a happening, and its place in the queue.
type event struct {
	at int64
	// order is the event's number and, in its lowest placeBits, the happening's place. Events of
	// one time happen in the order in which they were planned.
	order uint64
}

// placeBits bounds how many happenings may be planned at a time: 16 million. More would not fit
// into memory either.
const placeBits = 24

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.order < f.order
}

// queue is a heap of events in which every node has four children. It is half as deep as a binary
// one, and most of a simulation's time would go into that. The happenings are stored separately, so
// that the nodes that move are small and the garbage collector need not scan them.
type queue struct {
	heap  []event
	do    []Happening // by place
	free  []uint32    // unused places
	count uint64      // events so far
}

const children = 4

// push plans a happening, after all others that are planned for the same time.
func (q *queue) push(at int64, do Happening) {
	q.count++
	e := event{at: at, order: q.count<<placeBits | uint64(q.place(do))}
	h := append(q.heap, e)
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
	q.heap = h
}

// place stores a happening at an unused place.
func (q *queue) place(do Happening) uint32 {
	if last := len(q.free) - 1; last >= 0 {
		place := q.free[last]
		q.free = q.free[:last]
		q.do[place] = do
		return place
	}
	if len(q.do) == 1<<placeBits {
		panic("timeline: too much is planned at once")
	}
	q.do = append(q.do, do)
	return uint32(len(q.do) - 1)
}

// due reports whether something is planned up to a time.
func (q *queue) due(end int64) bool { return len(q.heap) > 0 && q.heap[0].at <= end }

// pop removes the earliest happening and returns it with its time. The queue must not be empty.
func (q *queue) pop() (at int64, do Happening) {
	first := q.heap[0]
	q.sink()
	place := first.order & (1<<placeBits - 1)
	do, q.do[place] = q.do[place], nil // otherwise it would live as long as the queue
	q.free = append(q.free, uint32(place))
	return first.at, do
}

// sink removes the first node of the heap. The last node takes its place and sinks.
func (q *queue) sink() {
	last := q.heap[len(q.heap)-1]
	h := q.heap[:len(q.heap)-1]
	q.heap = h
	if len(h) == 0 {
		return
	}
	i := 0
	for {
		child := i*children + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+children, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&last) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = last
}
