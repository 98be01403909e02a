package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// admission is one allowed check. It was decided somewhere between its sending
// and its answer, so an interval surely contains it only if it contains both.
type admission struct {
	client         uint32
	sent, received time.Duration // since the start of the run
}

// Window is the interval in which a client came closest to its bound, or went
// furthest beyond.
type Window struct {
	From     time.Duration `json:"from"`
	To       time.Duration `json:"to"`
	Admitted int64         `json:"admitted"`
	// Gain is Admitted over the bound of To - From it was judged by.
	Gain float64 `json:"gain"`
}

// maxRounds bounds the iteration of intervals.worst, which needs 3 to 6 rounds.
const maxRounds = 64

// intervals are all intervals in which one client was admitted something.
type intervals struct {
	bySent []admission
	order  []int // positions in bySent, in order of receipt
}

func intervalsOf(admissions []admission) intervals {
	bySent := slices.Clone(admissions)
	slices.SortFunc(bySent, func(a, b admission) int { return cmp.Compare(a.sent, b.sent) })
	order := make([]int, len(bySent))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(bySent[a].received, bySent[b].received) })
	return intervals{bySent: bySent, order: order}
}

// worst finds, exactly, the interval [from, to] with the largest
// admitted/(C + r(to - from)), counting the admissions that surely fell into it.
// Time n log n for n admissions, a few rounds.
//
// The largest ratio is found as a root (Dinkelbach): for a guess g, the interval
// that maximises admitted - g(C + r(to - from)) is searched; if that maximum is
// above 0, its ratio is a better guess.
func (all intervals) worst(limit Limit) Window {
	var worst Window
	if len(all.bySent) == 0 {
		return worst
	}
	for range maxRounds {
		w, _ := bestAt(worst.Gain*limit.Refill, all.bySent, all.order)
		w.Gain = float64(w.Admitted) / limit.Bound(w.To-w.From)
		if w.Gain <= worst.Gain {
			break
		}
		worst = w
	}
	return worst
}

// excess is the largest admitted - (C + r(to - from)) of any interval; -C if
// nothing was admitted.
func (all intervals) excess(limit Limit) float64 {
	if len(all.bySent) == 0 {
		return -limit.Capacity
	}
	_, most := bestAt(limit.Refill, all.bySent, all.order)
	return most - limit.Capacity
}

// bestAt finds the interval that maximises admitted - slope*(to - from), and that
// maximum: it moves
// the end over the receipts and keeps, for every possible start, the value so far
// in a tree that answers for the best start.
func bestAt(slope float64, bySent []admission, order []int) (Window, float64) {
	tree := newStarts(len(bySent))
	best, value := Window{}, math.Inf(-1)
	for _, p := range order {
		tree.include(p, slope*bySent[p].sent.Seconds())
		end := bySent[p].received
		if v := tree.best() - slope*end.Seconds(); v > value {
			from := bySent[tree.argBest()].sent
			value = v
			best = Window{From: from, To: end, Admitted: int64(math.Round(v + slope*(end-from).Seconds()))}
		}
	}
	return best, value
}

// starts is a segment tree over the admissions in order of sending. Position i's
// value is its base plus the number of included admissions at or after i; a
// position counts once it was included itself.
type starts struct {
	size int
	add  []float64 // of a whole subtree
	top  []float64 // best value in the subtree, add included
}

func newStarts(n int) *starts {
	size := 1
	for size < n {
		size *= 2
	}
	s := &starts{size: size, add: make([]float64, 2*size), top: make([]float64, 2*size)}
	for i := range s.top {
		s.top[i] = math.Inf(-1)
	}
	return s
}

// include adds 1 to every position up to p, and lets p count, with that base.
func (s *starts) include(p int, base float64) {
	leaf := s.size + p
	s.add[leaf]++
	s.top[leaf] = base + s.add[leaf]
	for node := leaf; node > 1; node /= 2 {
		if node%2 == 1 { // everything in the left sibling starts earlier
			s.add[node-1]++
			s.top[node-1]++
		}
		parent := node / 2
		s.top[parent] = max(s.top[parent*2], s.top[parent*2+1]) + s.add[parent]
	}
}

func (s *starts) best() float64 { return s.top[1] }

func (s *starts) argBest() int {
	node := 1
	for node < s.size {
		node *= 2
		if s.top[node+1] > s.top[node] {
			node++
		}
	}
	return node - s.size
}

// Admission is one allowed request of one client, by the times of its sending and of its answer
// since any one moment.
type Admission struct{ Sent, Received time.Duration }

// WorstWindow returns, exactly, the interval in which a client's admissions came closest to a limit,
// or went furthest beyond: those count that were sent and answered in it.
func WorstWindow(of []Admission, l Limit) Window {
	all := make([]admission, len(of))
	for i, a := range of {
		all[i] = admission{sent: a.Sent, received: a.Received}
	}
	return intervalsOf(all).worst(l)
}
