package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"aliquot/limit"
	"aliquot/lua"
)

// errEnded: the reservation's name existed, and did not when it was read.
var errEnded = errors.New("store: the reservation ended just now; call again")

// Reserve decides the groups of one request and remembers the result; see lua.Scripts.Reserve. The
// reservation's name is in a slot of its own, so Reserve writes it after the charges. If another caller
// has written the name first, or the name cannot have been written, Reserve gives back what it charged; the
// results have what is left then. Callers of one name in this process take turns, because two of them at
// once could deny each other. If it is unknown whether the name was written, Reserve gives nothing back,
// because a settlement may do so; the client may then be charged for nothing.
func (s *Cluster) Reserve(ctx context.Context, epoch string, groups []Group, r lua.Reservation) (out lua.Reserved, now int64, err error) {
	if err := errors.Join(lua.CheckReservation(groups, r), lua.CheckGroups(epoch, groups), s.current()); err != nil {
		return out, 0, err
	}
	done, err := s.reserving.acquire(ctx, r.Key)
	if err != nil {
		return out, 0, err
	}
	defer done()
	if out.Earlier, err = s.Reservation(ctx, r.Key); err != nil {
		return out, 0, fmt.Errorf("%w: %w", errNotBegun, err)
	}
	if out.Earlier != nil {
		return out, 0, nil
	}
	t, err := s.take(ctx, epoch, groups, true)
	out.Results = t.results
	if err != nil {
		return out, t.now, err
	}
	if len(groups) == 0 {
		if _, t.now, err = s.applyNothing(ctx, epoch); err != nil {
			return lua.Reserved{}, 0, err
		}
	}
	if r.Decided && !t.results[0].Allowed {
		return out, t.now, nil
	}
	kept := lua.NewKept(limit.Stamp(epoch), t.first(), groups, t.results, r.Text)
	write := &job{slot: lua.SlotOf(r.Key), plain: []any{"set", r.Key, kept.Stored(), "nx", "px", r.Keep.Milliseconds()}}
	s.run(ctx, []*job{write})
	switch {
	case write.err != nil && !ChargedNothing(write.err):
		return lua.Reserved{}, 0, fmt.Errorf("store: reserve: %w", write.err)
	case write.err == nil && write.reply != nil:
		return out, t.now, nil
	}
	s.undo(ctx, epoch, t)
	if write.err != nil {
		return out, t.now, fmt.Errorf("store: reserve: %w", write.err)
	}
	earlier, err := s.Reservation(ctx, r.Key)
	if err == nil && earlier == nil {
		err = errEnded
	}
	return lua.Reserved{Earlier: earlier, Results: t.results}, t.now, err
}

// maxNameWaiters is the largest number of callers that wait for their turn of one name. It is above the
// number of tries of one client, and leaves room for other callers.
const maxNameWaiters = 32

// errTurn: other callers use the name, and the store was not called.
var errTurn = errors.New("other calls reserve by this name; call again")

// names are the names of the reservations that are being made. The zero value has none. Safe for
// concurrent use.
type names struct {
	mu   sync.Mutex
	busy map[string]*nameTurn
}

// nameTurn is one caller's turn of a name.
type nameTurn struct {
	ended   chan struct{} // closed at the end of the turn
	waiting int
}

// acquire waits until no other caller uses the name. Its turn lasts until done is called. There are at
// most as many names as calls under way. A failure is a *NodeError, because it says nothing about
// the store.
func (n *names) acquire(ctx context.Context, name string) (done func(), err error) {
	for {
		n.mu.Lock()
		other, taken := n.busy[name]
		if !taken {
			mine := n.begin(name)
			n.mu.Unlock()
			return func() { n.end(name, mine) }, nil
		}
		if other.waiting == maxNameWaiters {
			n.mu.Unlock()
			return nil, &NodeError{Node: noNode, Err: errTurn}
		}
		other.waiting++
		n.mu.Unlock()
		select {
		case <-other.ended:
		case <-ctx.Done():
			n.mu.Lock()
			other.waiting--
			n.mu.Unlock()
			return nil, &NodeError{Node: noNode, Err: fmt.Errorf("%w: %w", errTurn, ctx.Err())}
		}
	}
}

// noNode stands for the node in the error of a wait for a name.
const noNode = "of a reservation"

// begin starts a turn. The caller holds mu.
func (n *names) begin(name string) *nameTurn {
	if n.busy == nil {
		n.busy = map[string]*nameTurn{}
	}
	mine := &nameTurn{ended: make(chan struct{})}
	n.busy[name] = mine
	return mine
}

func (n *names) end(name string, mine *nameTurn) {
	n.mu.Lock()
	delete(n.busy, name)
	n.mu.Unlock()
	close(mine.ended)
}

// Reservation returns the remembered reservation of a request; see lua.Scripts.Reservation.
func (s *Cluster) Reservation(ctx context.Context, key string) (*lua.Kept, error) {
	read := &job{slot: lua.SlotOf(key), plain: []any{"get", key}}
	s.run(ctx, []*job{read})
	if read.err != nil || read.reply == nil {
		return nil, read.err
	}
	text, _ := read.reply.(string)
	return lua.ParseKept(text)
}

// Adjust makes adjustments; see lua.Scripts.Adjust. Each slot makes its own, so an adjustment that
// its slot could not make is missing.
func (s *Cluster) Adjust(ctx context.Context, epoch string, parts []lua.Part) ([]limit.Adjusted, error) {
	if err := errors.Join(lua.CheckParts(epoch, parts), s.current()); err != nil {
		return nil, err
	}
	return s.adjust(ctx, epoch, s.partsForNodes(ctx, parts)), nil
}

// Settle ends a reservation; see lua.Scripts.Settle. It first marks the reservation as settled with
// nothing given back, so that no other caller settles it; the node must have the contents of the epoch,
// because another one may have lost that it was settled before. Then it adjusts the limits in their
// slots, and then it writes the outcome. A limit that cannot be reached keeps what was reserved,
// and so do all limits if this process ends in between.
func (s *Cluster) Settle(ctx context.Context, epoch string, end lua.Settlement) (out lua.Settled, now int64, err error) {
	if err := errors.Join(lua.CheckSettlement(epoch, &end), s.current()); err != nil {
		return out, 0, err
	}
	end.Parts = s.partsForNodes(ctx, end.Parts)
	mark := &job{slot: lua.SlotOf(end.Key)}
	if mark.call, err = s.scripts.MarkCall(s.epochs[mark.slot], epoch, end); err != nil {
		return out, 0, err
	}
	s.run(ctx, []*job{mark})
	reply, err := s.result(mark)
	if err == nil {
		out, now, err = lua.ReadMark(reply)
	}
	if err != nil {
		return lua.Settled{}, 0, fmt.Errorf("store: settle: %w", err)
	}
	if out.Changed || out.Expired {
		return out, now, nil
	}
	out.Adjusted = s.adjust(ctx, epoch, end.Parts)
	// A caller that asks in between, or after this write failed, is told that nothing was given
	// back. That understates the refund and changes nothing.
	marked := end.Was.Ended(now, nil, end.Note)
	is := end.Was.Ended(now, out.Adjusted, end.Note)
	s.run(ctx, []*job{{slot: mark.slot, call: s.scripts.SpreadCall(end.Key, marked.Stored(), is.Stored())}})
	return out, now, nil
}

// partsForNodes returns copies of parts with views that are correct on all nodes.
func (s *Cluster) partsForNodes(ctx context.Context, parts []lua.Part) []lua.Part {
	heard := false
	for i := range parts {
		heard = heard || needsHeard(&parts[i].View)
	}
	w := s.viewsOf(ctx, heard)
	out := make([]lua.Part, len(parts))
	for i, p := range parts {
		w.view(&p.View)
		out[i] = p
	}
	return out
}

// adjust makes adjustments, each once. The result of one that failed, or of which the outcome is
// unknown, is zero.
func (s *Cluster) adjust(ctx context.Context, epoch string, parts []lua.Part) []limit.Adjusted {
	out := make([]limit.Adjusted, len(parts))
	jobs, of := bySlot(len(parts), func(i int) string { return parts[i].Key })
	for at, j := range jobs {
		some := make([]lua.Part, len(of[at]))
		for k, i := range of[at] {
			some[k] = parts[i]
		}
		call, err := s.scripts.AdjustCall(s.epochs[j.slot], epoch, some)
		if err != nil {
			return out // the take with these views has passed the same checks
		}
		j.call = call
	}
	s.run(ctx, jobs)
	for at, j := range jobs {
		reply, err := s.result(j)
		if err != nil {
			continue
		}
		adjusted, _, err := lua.ReadAdjust(reply, len(of[at]))
		if err != nil {
			continue
		}
		for k, i := range of[at] {
			out[i] = adjusted[k]
		}
	}
	return out
}
