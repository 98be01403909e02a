package sim

import "container/heap"

// event is something that happens at a true time; events of one time happen in the
// order in which they were planned.
type event struct {
	at  int64
	seq uint64
	do  func()
}

// queue is a heap of events.
type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is for package heap.
func (q *queue) Push(x any) { *q = append(*q, x.(event)) }

// Pop is for package heap.
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// after plans do for d nanoseconds from now.
func (w *world) after(d int64, do func()) {
	w.seq++
	heap.Push(&w.queue, event{at: w.now + max(d, 0), seq: w.seq, do: do})
}

// run lets true time pass until end, or until something is violated.
func (w *world) run(end int64) {
	for len(w.queue) > 0 && w.queue[0].at <= end && w.failure == nil {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		w.events++
		e.do()
		w.checkShares()
	}
	if w.failure == nil {
		w.now = end
	}
}
