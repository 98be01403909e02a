package check

import (
	"aliquot/internal/sim/check/form"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// item is a state to search.
type item struct {
	w  *world
	id link
}

// link is a place in the record of how states were reached: the worker that wrote it, and the
// index.
type link uint64

type step struct {
	from  link
	event event
}

const noLink = ^link(0)

// search is one search in progress.
type search struct {
	sc      *Scenario
	bound   Bound
	seen    form.Visited
	states  atomic.Int64
	workers []*worker
	stop    atomic.Bool
	full    atomic.Bool // the bound on states is reached
	began   time.Time

	mu    sync.Mutex
	found *finding
}

// finding is a violation: the path, and the event that broke the promise.
type finding struct {
	from  link
	event event
	what  string
}

type worker struct {
	s           *search
	n           int
	writer      writer
	steps       []step
	next        []item
	events      []event
	transitions int64
	recoveries  int
	quanta      int
}

// Search explores everything that can happen in the scenario, breadth first, up to a bound. It ends
// at the first violation. The result is the same for any number of workers, except where a bound on
// states or time cuts it off.
func (sc Scenario) Search(bound Bound) Result {
	sc.prepare()
	s := &search{sc: &sc, bound: bound, began: time.Now()}
	for n := range max(bound.Workers, 1) {
		s.workers = append(s.workers, &worker{s: s, n: n})
	}
	r := Result{Scenario: sc.Name, About: sc.About, Faults: sc.Budget, Turns: sc.Turns}
	root, failed := sc.root()
	if failed != "" {
		r.End, r.Violation = Broken, &Violation{Scenario: sc.Name, What: "on the way to the root: " + failed}
		return r
	}
	level := []item{{root, noLink}}
	s.seen.Visit(s.workers[0].writer.key(root), root.ideal)
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
		r.Violation = sc.explain(s.path(s.found.from, s.found.event))
	}
	return r
}

// end returns what ended the search, with left states still to search.
func (s *search) end(left int) End {
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

// root returns the world at the root, with the scenario's budgets.
func (sc *Scenario) root() (w *world, failed string) {
	defer func() {
		if p := recover(); p != nil {
			failed = fmt.Sprintf("panic: %v", p)
		}
	}()
	w = newWorld(sc)
	if sc.Root != nil {
		sc.Root(w)
	}
	w.settle()
	w.faults, w.turns, w.lonely, w.began = int8(sc.Budget), int8(sc.Turns), 0, w.now
	return w, w.broken
}

// expand searches all states of a level, and returns the next level.
func (s *search) expand(level []item) []item {
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
					level[i].w = nil // free its memory
				}
				s.overdue()
			}
		})
	}
	group.Wait()
	var next []item
	for _, x := range s.workers {
		next = append(next, x.next...)
		x.next = nil
	}
	return next
}

func (s *search) overdue() {
	if s.bound.Time > 0 && time.Since(s.began) >= s.bound.Time {
		s.stop.Store(true)
	}
}

// expand tries everything that can happen in one state.
func (x *worker) expand(it item) {
	x.events = it.w.events(x.events[:0])
	for _, e := range x.events {
		x.transitions++
		w := it.w.fork()
		if broken := w.try(e); broken != "" {
			x.s.report(finding{it.id, e, broken})
			return
		}
		key := x.writer.key(w)
		seen := x.s.seen.Visit(key, w.ideal)
		if seen == form.Known {
			continue
		}
		if seen == form.New && !x.count(w, key, it, e) {
			return
		}
		x.steps = append(x.steps, step{it.id, e})
		x.next = append(x.next, item{w, link(x.n)<<40 | link(len(x.steps)-1)})
	}
}

// count counts a new state, and lets some of them recover. It returns false if there are enough
// states.
func (x *worker) count(w *world, key uint64, it item, e event) bool {
	n := x.s.states.Add(1)
	x.quanta = max(x.quanta, int((w.now-w.began)/int64(w.sc.Quantum)))
	if key%recoverEvery == 0 {
		x.recoveries++
		if broken := w.fork().recovers(); broken != "" {
			x.s.report(finding{it.id, e, broken})
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

// try applies an event and returns what it breaks. A state machine that panics breaks a promise
// too.
func (w *world) try(e event) (broken string) {
	defer func() {
		if p := recover(); p != nil {
			broken = fmt.Sprintf("panic: %v", p)
		}
	}()
	w.do(e)
	return w.broken
}

// report keeps the first violation.
func (s *search) report(f finding) {
	s.stop.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil {
		s.found = &f
	}
}

// path returns how a state was reached, and one more event.
func (s *search) path(from link, last event) []event {
	path := []event{last}
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
