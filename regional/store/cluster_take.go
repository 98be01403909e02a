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

// slotGroup is the part of a group whose keys are in one slot.
type slotGroup struct {
	group  int
	limits []int // indexes into the group's limits
}

// bundle is one script call of a take, for one slot.
type bundle struct {
	job    *job
	groups []Group
	pieces []slotGroup // parallel to groups
	out    []Result
	now    int64
	err    error
}

// Take decides groups, each all or nothing in the end. A group may be denied, or the node of one of
// its limits may not answer. Take then gives back what the group was charged elsewhere before it
// returns. Until then other requests find those tokens missing and may be denied for it. A charge
// that cannot be given back, because its node stopped answering, costs the client that much. Take
// never gives back what may not have been charged.
//
// A group whose decision needs a node that did not answer has Result.Err. Its Limits on other nodes
// have their outcomes, and those of that node have the zero outcome. If no node answered, or one has other
// contents, the call fails. It then has results too, of which none is allowed: a node that decided has
// taken what the call carried. now is the latest clock of the nodes that answered.
func (s *Cluster) Take(ctx context.Context, epoch string, groups []Group) ([]Result, int64, error) {
	if err := lua.CheckGroups(epoch, groups); err != nil {
		return nil, 0, err
	}
	if err := s.current(); err != nil {
		return nil, 0, err
	}
	t, err := s.take(ctx, epoch, groups, false)
	return t.results, t.now, err
}

// taken is a take that was made, with its results.
type taken struct {
	groups  []Group // with their views made correct for the cluster
	bundles []*bundle
	results []Result
	now     int64
}

// first returns the earliest clock of the nodes that decided, or now if none had to. By it a charge of the
// present window may count as one of the window before, but never the other way round: a refund of such a
// charge would be taken off the use of others.
func (t *taken) first() int64 {
	at := t.now
	for _, b := range t.bundles {
		if b.err == nil {
			at = min(at, b.now)
		}
	}
	return at
}

// take implements Take. With whole, it fails if any group could not be decided. Its result is never nil.
func (s *Cluster) take(ctx context.Context, epoch string, groups []Group, whole bool) (*taken, error) {
	t := &taken{groups: s.groupsForNodes(ctx, groups)}
	var err error
	if t.bundles, err = s.bundle(epoch, t.groups); err != nil {
		return t, err
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
	if err = t.merge(whole); err != nil {
		s.undo(ctx, epoch, t)
		return t, err
	}
	s.giveBack(ctx, epoch, t, false)
	return t, nil
}

// undo gives back the charges of all groups, of which none is admitted then.
func (s *Cluster) undo(ctx context.Context, epoch string, t *taken) {
	s.giveBack(ctx, epoch, t, true)
	for i := range t.results {
		t.results[i].Allowed = false
	}
}

// bundle sorts the limits of groups by slot, into at most lua.TakeChunk groups a call.
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
				b = &bundle{job: &job{slot: slot, urgent: true}}
				open[slot] = b
				bundles = append(bundles, b)
			}
			b.groups = append(b.groups, Group{Cost: groups[i].Cost, Limits: []KeyView{groups[i].Limits[j]}})
			b.pieces = append(b.pieces, slotGroup{group: i, limits: []int{j}})
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

// merge puts the answers of the slots together. A call that met other contents, or came too late,
// fails the take as a whole: the caller has to repeat it with new views.
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
		b.addTo(t.results)
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

// addTo adds a slot's answers to the results of the groups.
func (b *bundle) addTo(results []Result) {
	for k, p := range b.pieces {
		r := &results[p.group]
		if b.err != nil {
			r.Allowed, r.Err = false, b.err
			if r.Undecided == nil {
				r.Undecided = map[int]error{}
			}
			for _, j := range p.limits {
				r.Undecided[j] = b.err
			}
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

// giveBack returns the charges of groups that were not admitted, or those of all groups if all is
// true.
func (s *Cluster) giveBack(ctx context.Context, epoch string, t *taken, all bool) {
	var parts []lua.Part
	var of [][2]int // the group and the limit of each part
	for _, b := range t.bundles {
		for k, p := range b.pieces {
			if b.err != nil || !b.out[k].Allowed || t.results[p.group].Allowed && !all {
				continue
			}
			for _, j := range p.limits {
				parts = append(parts, refund(&t.groups[p.group], j, &t.results[p.group].Limits[j], b.now))
				of = append(of, [2]int{p.group, j})
			}
		}
	}
	if len(parts) == 0 {
		return
	}
	// The refund has time of its own, because the call's time may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.callTimeout)
	defer cancel()
	for k, a := range s.adjust(ctx, epoch, parts) {
		if a.At != 0 {
			out := &t.results[of[k][0]].Limits[of[k][1]]
			if out.Tokens = a.Tokens; parts[k].View.Algorithm.Counts() {
				out.Tokens = out.Bucket.Cap - a.InUse
			}
		}
	}
}

// refund returns the adjustment that gives back the whole charge of a group's limit, made at an
// instant of its node's clock. By charged it knows what room the bucket had before: less than that, if
// an Extra was spent.
func refund(g *Group, j int, charged *limit.Outcome, at int64) lua.Part {
	v := g.Limits[j].View
	cost := g.Cost
	if v.Cost != 0 {
		cost = v.Cost
	}
	v.Debit, v.Held, v.Chunk = 0, nil, limit.ChunkView{} // the take has already subtracted the debit and accounted for the chunk
	room := max(0, charged.Bucket.Cap-charged.Tokens-cost)
	return lua.Part{Key: g.Limits[j].Key, Adjustment: limit.Adjustment{View: v, At: at, Window: v.Window, Reserved: cost, Denied: true, Room: room}}
}

// groupsForNodes returns copies of groups with views that are correct on all nodes.
func (s *Cluster) groupsForNodes(ctx context.Context, groups []Group) []Group {
	heard := false
	for i := range groups {
		for j := range groups[i].Limits {
			heard = heard || needsHeard(&groups[i].Limits[j].View)
		}
	}
	w := s.viewsOf(ctx, heard)
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

// changesForNodes returns copies of changes with views that are correct on all nodes.
func (s *Cluster) changesForNodes(ctx context.Context, changes []Change) []Change {
	heard := false
	for i := range changes {
		heard = heard || needsHeard(&changes[i].View)
	}
	w := s.viewsOf(ctx, heard)
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

// needsHeard reports whether a view depends on when the region was last heard.
func needsHeard(v *limit.View) bool { return v.Phase == limit.Floor && v.HeardWait > 0 }

// clusterViews holds the facts that make the views of one call correct for a cluster: how far the nodes'
// clocks are apart, and when the region was last heard.
type clusterViews struct {
	apart int64
	// heard is when the region was last heard, by the latest of the clocks; 0: never, or the call
	// does not need it. It holds until the instant until of the earliest of the clocks.
	heard, until int64
	readsMark    bool // the call needs heard and until
}

// viewsOf reads these facts. With heard it also reads when the region was last heard.
func (s *Cluster) viewsOf(ctx context.Context, heard bool) clusterViews {
	low, high, known := s.nodes.clockBounds()
	w := clusterViews{readsMark: heard}
	if known {
		w.apart = high - low
	}
	if w.apart > maxApart {
		s.readClocksSoon()
	}
	if !heard {
		return w
	}
	w.heard, w.until = s.lastHeard(ctx)
	return w
}

func (w *clusterViews) view(v *limit.View) {
	shift(v, w.apart)
	if w.readsMark && needsHeard(v) && w.heard > 0 {
		// The mark is written, and read, some time before the event that it is about.
		v.Since = max(v.Since, min(w.heard, limit.MaxExact-v.HeardWait)+v.HeardWait)
	}
	v.HeardWait = 0
}

func (w *clusterViews) deadline(at int64) int64 {
	if !w.readsMark {
		return at
	}
	if at == 0 {
		at = math.MaxInt64
	}
	return min(at, w.until)
}
