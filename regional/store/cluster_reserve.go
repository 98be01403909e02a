package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"aliquot/limit"
	"aliquot/lua"
)

// errUnkept: the name of a reservation went between two looks at it.
var errUnkept = errors.New("store: the reservation ended just now; call again")

// Reserve is lua.Scripts.Reserve. The reservation's name is in a slot of its own, so it is
// written after the charges: whoever finds it written by another gives back what it
// charged. Callers of one name in this process take turns, for one that charges beside
// another may be denied for that. Where it is not known whether it was written nothing is given back, for a
// settlement may do so; the client then is charged for nothing.
func (s *Cluster) Reserve(ctx context.Context, epoch string, groups []Group, r lua.Reservation) (out lua.Reserved, now int64, err error) {
	if err := errors.Join(lua.CheckReservation(groups, r), lua.CheckGroups(epoch, groups), s.current()); err != nil {
		return out, 0, err
	}
	done, err := s.reserving.turn(ctx, r.Key)
	if err != nil {
		return out, 0, err
	}
	defer done()
	if out.Earlier, err = s.Reservation(ctx, r.Key); err != nil || out.Earlier != nil {
		return out, 0, err
	}
	t, err := s.take(ctx, epoch, groups, true)
	if err != nil {
		return out, 0, err
	}
	out.Results = t.results
	if len(groups) == 0 {
		if _, t.now, err = s.applyNothing(ctx, epoch); err != nil {
			return lua.Reserved{}, 0, err
		}
	}
	if r.Decided && !t.results[0].Allowed {
		return out, t.now, nil
	}
	kept := lua.NewKept(limit.Stamp(epoch), t.now, groups, t.results, r.Text)
	write := &job{slot: lua.SlotOf(r.Key), plain: []any{"set", r.Key, kept.Stored(), "nx", "px", r.Keep.Milliseconds()}}
	s.run(ctx, []*job{write})
	switch {
	case write.err != nil:
		return lua.Reserved{}, 0, fmt.Errorf("store: reserve: %w", write.err)
	case write.reply != nil:
		return out, t.now, nil
	}
	s.giveBack(ctx, epoch, t, true)
	earlier, err := s.Reservation(ctx, r.Key)
	if err == nil && earlier == nil {
		err = errUnkept
	}
	return lua.Reserved{Earlier: earlier, Results: t.results}, t.now, err
}

// waitForName is how many callers wait for their turn of one name at the most: more than
// try again after one another, and few enough that they take nobody else's place.
const waitForName = 32

// errTurn: others are at work on the name, and nothing was asked.
var errTurn = errors.New("other calls reserve by this name; call again")

// names are the names that somebody is at work on. The zero value has none. Safe for
// concurrent use.
type names struct {
	mu   sync.Mutex
	busy map[string]*nameTurn
}

// nameTurn is somebody's turn of a name.
type nameTurn struct {
	over    chan struct{} // closed then
	waiting int
}

// turn waits until nobody else is at work on a name, which done ends. There are as many
// names as calls under way at the most. A failure is a *NodeError, for it says nothing about
// the store.
func (n *names) turn(ctx context.Context, name string) (done func(), err error) {
	for {
		n.mu.Lock()
		other, taken := n.busy[name]
		if !taken {
			mine := n.begin(name)
			n.mu.Unlock()
			return func() { n.end(name, mine) }, nil
		}
		if other.waiting == waitForName {
			n.mu.Unlock()
			return nil, &NodeError{Node: noNode, Err: errTurn}
		}
		other.waiting++
		n.mu.Unlock()
		select {
		case <-other.over:
		case <-ctx.Done():
			n.mu.Lock()
			other.waiting--
			n.mu.Unlock()
			return nil, &NodeError{Node: noNode, Err: fmt.Errorf("%w: %w", errTurn, ctx.Err())}
		}
	}
}

// noNode stands for the node where a name is waited for.
const noNode = "of a reservation"

// begin is the beginning of a turn. The caller holds mu.
func (n *names) begin(name string) *nameTurn {
	if n.busy == nil {
		n.busy = map[string]*nameTurn{}
	}
	mine := &nameTurn{over: make(chan struct{})}
	n.busy[name] = mine
	return mine
}

func (n *names) end(name string, mine *nameTurn) {
	n.mu.Lock()
	delete(n.busy, name)
	n.mu.Unlock()
	close(mine.over)
}

// Reservation is what is remembered of a request; see lua.Scripts.Reservation.
func (s *Cluster) Reservation(ctx context.Context, key string) (*lua.Kept, error) {
	read := &job{slot: lua.SlotOf(key), plain: []any{"get", key}}
	s.run(ctx, []*job{read})
	if read.err != nil || read.reply == nil {
		return nil, read.err
	}
	text, _ := read.reply.(string)
	return lua.ParseKept(text)
}

// Adjust is lua.Scripts.Adjust, by each slot for itself: what one could not charge is not charged.
func (s *Cluster) Adjust(ctx context.Context, epoch string, parts []lua.Part) ([]limit.Adjusted, error) {
	if err := errors.Join(lua.CheckParts(epoch, parts), s.current()); err != nil {
		return nil, err
	}
	return s.adjust(ctx, epoch, s.wordParts(ctx, parts)), nil
}

// Settle is lua.Scripts.Settle. The reservation is first marked as settled, with nothing
// given back, so that nobody else settles it, then its limits are adjusted where they
// stand, and then what came of it is written. A limit that cannot be reached keeps what
// was reserved, and so do all if this process ends in between.
func (s *Cluster) Settle(ctx context.Context, epoch string, end lua.Settlement) (out lua.Settled, now int64, err error) {
	if err := errors.Join(lua.CheckSettlement(epoch, &end), s.current()); err != nil {
		return out, 0, err
	}
	_, now, err = s.applyNothing(ctx, epoch)
	if err != nil {
		return out, 0, err
	}
	if now > end.Ends {
		return lua.Settled{Expired: true}, now, nil
	}
	nothing := make([]limit.Adjusted, len(end.Parts))
	marked := end.Was.Ended(now, nothing, end.Note)
	if changed, err := s.swap(ctx, end.Key, end.Was, marked); err != nil || changed {
		return lua.Settled{Changed: changed}, now, err
	}
	out.Adjusted = s.adjust(ctx, epoch, s.wordParts(ctx, end.Parts))
	// Whoever asks meanwhile is told that nothing was given back, as is whoever asks
	// after this write failed: that understates it, and changes nothing.
	_, _ = s.swap(ctx, end.Key, marked, end.Was.Ended(now, out.Adjusted, end.Note))
	return out, now, nil
}

// swap replaces what is kept, unless it is something else by now.
func (s *Cluster) swap(ctx context.Context, key string, was, is *lua.Kept) (changed bool, err error) {
	j := &job{slot: lua.SlotOf(key), call: s.scripts.SpreadCall(key, was.Stored(), is.Stored())}
	s.run(ctx, []*job{j})
	if j.err != nil {
		return false, fmt.Errorf("store: settle: %w", j.err)
	}
	return j.reply != any(is.Stored()), nil
}

// wordParts is wordGroups for a settlement.
func (s *Cluster) wordParts(ctx context.Context, parts []lua.Part) []lua.Part {
	asks := false
	for i := range parts {
		asks = asks || asksHeard(&parts[i].View)
	}
	w := s.wording(ctx, asks)
	out := make([]lua.Part, len(parts))
	for i, p := range parts {
		w.view(&p.View)
		out[i] = p
	}
	return out
}

// adjust makes adjustments, each once; one that could not be made, or of which nobody
// knows, is zero.
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
			return out // what was taken with these views would have been refused as well
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
