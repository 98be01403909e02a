package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"aliquot/limit"
	"aliquot/lua"
)

// piece is the part of a group that stands in one slot.
type piece struct {
	group  int
	limits []int // of the group
}

// bundle is one script call of a take.
type bundle struct {
	job    *job
	groups []Group
	pieces []piece // parallel to groups
	out    []Result
	now    int64
	err    error
}

// Take decides groups, each all or nothing in the end: a request that is denied, or that a
// node could not be asked about, has what it was charged elsewhere given back before Take
// returns. Until then others may find it missing, and be denied for it; and what cannot be
// given back, because the node stopped answering, costs the client that much. Nothing is
// ever given back that may not have been charged.
//
// A group that some node could not be asked about has Result.Err, while Limits that were
// asked have their outcomes, those that were not a zero one. If nobody answered, that is
// an error of the call. now is the latest clock of the nodes that were asked.
func (s *Cluster) Take(ctx context.Context, epoch string, groups []Group) ([]Result, int64, error) {
	if err := lua.CheckGroups(epoch, groups); err != nil {
		return nil, 0, err
	}
	if err := s.current(); err != nil {
		return nil, 0, err
	}
	t, err := s.take(ctx, epoch, groups, false)
	if err != nil {
		return nil, 0, err
	}
	return t.results, t.now, nil
}

// taken is a take that was made.
type taken struct {
	groups  []Group // as worded for the cluster
	bundles []*bundle
	results []Result
	now     int64
}

// take is Take; with whole, it fails if any group could not be decided.
func (s *Cluster) take(ctx context.Context, epoch string, groups []Group, whole bool) (*taken, error) {
	t := &taken{groups: s.wordGroups(ctx, groups)}
	var err error
	if t.bundles, err = s.bundle(epoch, t.groups); err != nil {
		return nil, err
	}
	jobs := make([]*job, len(t.bundles))
	for i, b := range t.bundles {
		jobs[i] = b.job
	}
	s.run(ctx, jobs)
	for _, b := range t.bundles {
		reply, err := s.result(b.job)
		if err == nil {
			b.out, b.now, err = lua.ReadTake(reply, b.groups)
		}
		b.err = err
	}
	err = t.merge(whole)
	s.giveBack(ctx, epoch, t, err != nil)
	return t, err
}

// bundle sorts what groups ask by slots.
func (s *Cluster) bundle(epoch string, groups []Group) ([]*bundle, error) {
	var bundles []*bundle
	open := map[int]*bundle{}
	for i := range groups {
		for j := range groups[i].Limits {
			slot := lua.SlotOf(groups[i].Limits[j].Key)
			b := open[slot]
			last := -1
			if b != nil {
				last = len(b.pieces) - 1
			}
			if b != nil && b.pieces[last].group == i {
				b.groups[last].Limits = append(b.groups[last].Limits, groups[i].Limits[j])
				b.pieces[last].limits = append(b.pieces[last].limits, j)
				continue
			}
			if b == nil || len(b.groups) == lua.TakeChunk {
				b = &bundle{job: &job{slot: slot, hasty: true}}
				open[slot] = b
				bundles = append(bundles, b)
			}
			b.groups = append(b.groups, Group{Cost: groups[i].Cost, Limits: []KeyView{groups[i].Limits[j]}})
			b.pieces = append(b.pieces, piece{group: i, limits: []int{j}})
		}
	}
	for _, b := range bundles {
		call, err := s.scripts.TakeCall(s.epochs[b.job.slot], epoch, b.groups)
		if err != nil {
			return nil, err
		}
		b.job.call = call
	}
	return bundles, nil
}

// merge puts the answers of the slots together. Other contents, or a call that was too
// late, are the answer to all: the caller has to speak anew.
func (t *taken) merge(whole bool) error {
	t.results = make([]Result, len(t.groups))
	for i := range t.groups {
		t.results[i] = Result{Allowed: true, Limits: make([]limit.Outcome, len(t.groups[i].Limits))}
		if len(t.bundles) > 1 {
			t.results[i].Clocks = make([]int64, len(t.groups[i].Limits))
		}
	}
	var refused, failed error
	for _, b := range t.bundles {
		_, other := errors.AsType[*lua.EpochError](b.err)
		_, late := errors.AsType[*lua.LateError](b.err)
		if other || late && refused == nil {
			refused = b.err
		}
		if b.err != nil {
			failed = b.err
		}
		t.now = max(t.now, b.now)
		b.into(t.results)
	}
	if refused != nil {
		return refused
	}
	some := slices.ContainsFunc(t.bundles, func(b *bundle) bool { return b.err == nil })
	switch {
	case failed == nil || some && !whole:
		return nil
	case some:
		return fmt.Errorf("store: %w: %w", lua.ErrPartly, failed)
	}
	return failed
}

// into adds a slot's answers to those of the groups.
func (b *bundle) into(results []Result) {
	for k, p := range b.pieces {
		r := &results[p.group]
		if b.err != nil {
			r.Allowed, r.Err = false, b.err
			r.Undecided = append(r.Undecided, p.limits...)
			continue
		}
		r.Allowed = r.Allowed && b.out[k].Allowed
		for at, j := range p.limits {
			r.Limits[j] = b.out[k].Limits[at]
			if r.Clocks != nil {
				r.Clocks[j] = b.now
			}
		}
	}
}

// giveBack gives back what groups were charged that were not admitted, or with all what
// any was.
func (s *Cluster) giveBack(ctx context.Context, epoch string, t *taken, all bool) {
	var parts []lua.Part
	var of [][2]int // group and limit of each part
	for _, b := range t.bundles {
		for k, p := range b.pieces {
			if b.err != nil || !b.out[k].Allowed || t.results[p.group].Allowed && !all {
				continue
			}
			for _, j := range p.limits {
				parts = append(parts, refund(&t.groups[p.group], j, b.now))
				of = append(of, [2]int{p.group, j})
			}
		}
	}
	if len(parts) == 0 {
		return
	}
	// It has time of its own, for the call's may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.callTimeout)
	defer cancel()
	for k, a := range s.adjust(ctx, epoch, parts) {
		if a != (limit.Adjusted{}) {
			t.results[of[k][0]].Limits[of[k][1]].Tokens = a.Tokens
		}
	}
}

// refund is all that a limit of a group was charged at an instant of its node's clock.
func refund(g *Group, j int, at int64) lua.Part {
	v := g.Limits[j].View
	cost := g.Cost
	if v.Cost != 0 {
		cost = v.Cost
	}
	v.Debit, v.Chunk = 0, limit.ChunkView{} // it was taken off, and brought to account
	return lua.Part{Key: g.Limits[j].Key, Adjustment: limit.Adjustment{View: v, At: at, Window: v.Window, Reserved: cost}}
}

// wordGroups words the views of groups for all nodes.
func (s *Cluster) wordGroups(ctx context.Context, groups []Group) []Group {
	asks := false
	for i := range groups {
		for j := range groups[i].Limits {
			asks = asks || asksHeard(&groups[i].Limits[j].View)
		}
	}
	w := s.wording(ctx, asks)
	out := make([]Group, len(groups))
	for i := range groups {
		out[i] = Group{Cost: groups[i].Cost, Limits: make([]KeyView, len(groups[i].Limits))}
		for j, l := range groups[i].Limits {
			w.view(&l.View)
			l.View.Deadline = w.deadline(l.View.Deadline)
			out[i].Limits[j] = l
		}
	}
	return out
}

// wordChanges is wordGroups for changes.
func (s *Cluster) wordChanges(ctx context.Context, changes []Change) []Change {
	asks := false
	for i := range changes {
		asks = asks || asksHeard(&changes[i].View)
	}
	w := s.wording(ctx, asks)
	out := make([]Change, len(changes))
	for i, c := range changes {
		w.view(&c.View)
		if c.Deadline != 0 {
			c.Deadline = max(1, c.Deadline-w.apart)
		}
		c.Deadline = w.deadline(c.Deadline)
		out[i] = c
	}
	return out
}

func asksHeard(v *limit.View) bool { return v.Phase == limit.Floor && v.HeardWait > 0 }

// wording is how the views of one call are worded for a cluster: for any of its nodes'
// clocks, and with what was found out of who was heard.
type wording struct {
	apart int64
	// heard is when the region was heard last, by the latest of the clocks; 0: never, or
	// nobody asked. The answer is good until an instant of the earliest of the clocks.
	heard, until int64
	asked        bool
}

func (s *Cluster) wording(ctx context.Context, asks bool) wording {
	least, most, known := s.nodes.clocks()
	w := wording{asked: asks}
	if known {
		w.apart = most - least
	}
	if !asks {
		return w
	}
	w.heard, w.until = s.lastHeard(ctx)
	return w
}

func (w *wording) view(v *limit.View) {
	shift(v, w.apart)
	if w.asked && asksHeard(v) && w.heard > 0 {
		// The marks are written and read some time before what they are about.
		v.Since = max(v.Since, min(w.heard, limit.MaxExact-v.HeardWait)+v.HeardWait)
	}
	v.HeardWait = 0
}

func (w *wording) deadline(at int64) int64 {
	if !w.asked {
		return at
	}
	if at == 0 {
		at = math.MaxInt64
	}
	return min(at, w.until)
}
