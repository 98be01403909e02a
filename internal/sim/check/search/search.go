package search

import (
	"sync"
	"sync/atomic"
	"time"

	"aliquot/internal/sim/check/form"
)

// recoverEvery: one of so many new states is made to recover. The search also looks far ahead from
// there.
const recoverEvery = 512

// State is a state of type S to which events of type E can happen.
type State[S, E any] interface {
	// Events appends everything that can happen next.
	Events(out []E) []E
	// Fork returns a copy that may change.
	Fork() S
	// Try lets an event happen, and returns what it breaks; empty: nothing.
	Try(event E) (broken string)
	// Recovers returns what does not recover when nothing fails any more. The state cannot be used
	// afterwards.
	Recovers() (broken string)
	// Ideal returns how much is left in the ideal bucket: of two states that are otherwise one, the
	// one with less is searched.
	Ideal() int64
	// Quanta returns the time since the root, in steps.
	Quanta() int
}

// item is a state to search.
type item[S any] struct {
	w  S
	id link
}

// link is a place in the record of how states were reached: the worker that wrote it, and the
// index.
type link uint64

type step[E any] struct {
	from  link
	event E
}

const noLink = ^link(0)

// search is one search in progress.
type search[S State[S, E], E any] struct {
	bound   Bound
	seen    form.Visited
	states  atomic.Int64
	workers []*worker[S, E]
	stop    atomic.Bool
	full    atomic.Bool // the bound on states is reached
	began   time.Time

	mu    sync.Mutex
	found *finding[E]
}

// finding is the path to a state, and the event that broke something there.
type finding[E any] struct {
	from  link
	event E
}

type worker[S State[S, E], E any] struct {
	s           *search[S, E]
	n           int
	key         func(S) uint64
	steps       []step[E]
	next        []item[S]
	events      []E
	transitions int64
	recoveries  int
	quanta      int
}

// Run explores everything that can happen from a root on, breadth first, up to a bound. It ends at
// the first event that breaks something. newKey returns a worker's own function that hashes what makes
// two states one. The result is the same for any number of workers, except where a bound on states or
// time cuts it off.
func Run[S State[S, E], E any](root S, bound Bound, newKey func() func(S) uint64) Result[E] {
	s := &search[S, E]{bound: bound, began: time.Now()}
	for n := range max(bound.Workers, 1) {
		s.workers = append(s.workers, &worker[S, E]{s: s, n: n, key: newKey()})
	}
	var r Result[E]
	level := []item[S]{{root, noLink}}
	s.seen.Visit(s.workers[0].key(root), root.Ideal())
	s.states.Store(1)
	for len(level) > 0 && !s.stop.Load() && (bound.Depth == 0 || r.Depth < bound.Depth) {
		level = s.expand(level)
		if !s.stop.Load() {
			r.Depth++
		}
	}
	r.States, r.End, r.Took = int(s.states.Load()), s.end(len(level)), time.Since(s.began)
	for _, x := range s.workers {
		r.Transitions += x.transitions
		r.Recoveries += x.recoveries
		r.Quanta = max(r.Quanta, x.quanta)
	}
	if s.found != nil {
		r.Path = s.path(s.found.from, s.found.event)
	}
	return r
}

// end returns what ended the search, with left states still to search.
func (s *search[S, E]) end(left int) End {
	switch {
	case s.found != nil:
		return Broken
	case s.full.Load():
		return StatesFound
	case s.stop.Load():
		return TimeOver
	case left > 0:
		return DepthFound
	default:
		return Exhausted
	}
}

// expand searches all states of a level, and returns the next level.
func (s *search[S, E]) expand(level []item[S]) []item[S] {
	const chunk = 64
	var at atomic.Int64
	var group sync.WaitGroup
	for _, x := range s.workers {
		x.next = nil
		group.Go(func() {
			for !s.stop.Load() {
				end := at.Add(chunk)
				from := end - chunk
				if from >= int64(len(level)) {
					return
				}
				for i := from; i < min(end, int64(len(level))); i++ {
					x.expand(level[i])
					level[i] = item[S]{} // free its memory
				}
				s.overdue()
			}
		})
	}
	group.Wait()
	var next []item[S]
	for _, x := range s.workers {
		next = append(next, x.next...)
		x.next = nil
	}
	return next
}

func (s *search[S, E]) overdue() {
	if s.bound.Time > 0 && time.Since(s.began) >= s.bound.Time {
		s.stop.Store(true)
	}
}

// expand tries everything that can happen in one state.
func (x *worker[S, E]) expand(it item[S]) {
	x.events = it.w.Events(x.events[:0])
	for _, e := range x.events {
		x.transitions++
		w := it.w.Fork()
		if broken := w.Try(e); broken != "" {
			x.s.report(finding[E]{it.id, e})
			return
		}
		key := x.key(w)
		seen := x.s.seen.Visit(key, w.Ideal())
		if seen == form.Known {
			continue
		}
		if seen == form.New && !x.count(w, key, it, e) {
			return
		}
		x.steps = append(x.steps, step[E]{it.id, e})
		x.next = append(x.next, item[S]{w, link(x.n)<<40 | link(len(x.steps)-1)})
	}
}

// count counts a new state, and lets some of them recover. It returns false if there are enough
// states.
func (x *worker[S, E]) count(w S, key uint64, it item[S], e E) bool {
	n := x.s.states.Add(1)
	x.quanta = max(x.quanta, w.Quanta())
	if key%recoverEvery == 0 {
		x.recoveries++
		if broken := w.Fork().Recovers(); broken != "" {
			x.s.report(finding[E]{it.id, e})
			return false
		}
	}
	if x.s.bound.States > 0 && n >= int64(x.s.bound.States) {
		x.s.full.Store(true)
		x.s.stop.Store(true)
		return false
	}
	return true
}

// report keeps the first finding.
func (s *search[S, E]) report(f finding[E]) {
	s.stop.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil {
		s.found = &f
	}
}

// path returns how a state was reached, and one more event.
func (s *search[S, E]) path(from link, last E) []E {
	path := []E{last}
	for from != noLink {
		st := s.workers[from>>40].steps[from&(1<<40-1)]
		path = append(path, st.event)
		from = st.from
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path
}
