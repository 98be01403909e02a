package lua

import (
	"fmt"
	"time"

	"aliquot/limit"
)

const (
	// MaxLimits bounds the limits of one group, because duplicates are searched for in pairs.
	MaxLimits = 64
	// MaxKeyBytes bounds a key's name. Key returns shorter names.
	MaxKeyBytes = 128
	// MaxWindow bounds the window of a counting limit, some 100 years. The scripts can multiply it
	// with rights exactly.
	MaxWindow = 4_000_000_000 * time.Second
)

// header is what the views of one call share. All of them share the end of the lease, the deadline,
// the known generation and the stamp. The views of buckets also share the other fields; counting
// limits have their own.
type header struct {
	until, deadline     int64
	known               uint64
	stamp               uint32
	buckets             bool // there are buckets, and the following fields are theirs
	phase               limit.Phase
	since, birth        int64
	floorSince          int64
	heardWait           int64
	blind               bool // and not in phase Live
	asksHeard, anything bool
	counts              bool // there is a counting limit
	changes             bool // there is a limit that has changed
	remembers           bool // there is a record that the caller remembers
}

// admit checks one key and view against the header and the bounds of the scripts.
func (h *header) admit(key string, v *limit.View) error {
	if !h.anything {
		h.anything, h.until, h.deadline, h.known = true, v.Until, v.Deadline, v.Known
	}
	of, known := algorithmOf(key)
	switch {
	case key == "" || len(key) > MaxKeyBytes || !known || of != v.Algorithm:
		return fmt.Errorf("%w: a key of %d bytes for a %v; make it with lua.Key", ErrInvalid, len(key), v.Algorithm)
	case v.Stamp != h.stamp:
		return fmt.Errorf("%w: view of %s has stamp %08x, the epoch's is %08x", ErrInvalid, key, v.Stamp, h.stamp)
	case v.Until != h.until || v.Deadline != h.deadline || v.Known != h.known:
		return fmt.Errorf("%w: view of %s has another lease, deadline or session than the call's first", ErrInvalid, key)
	case v.Phase > limit.Floor:
		return fmt.Errorf("%w: view of %s has phase %d", ErrInvalid, key, v.Phase)
	case v.Gen > limit.MaxExact || v.Known > limit.MaxExact || v.Hot && v.Gen == 0:
		return fmt.Errorf("%w: view of %s has generation %d", ErrInvalid, key, v.Gen)
	case !v.Floor.Valid() || v.Hot && !v.Share.Valid():
		return fmt.Errorf("%w: view of %s has a bucket out of range", ErrInvalid, key)
	case v.HeardWait < 0 || v.HeardWait > HeardTTL.Microseconds():
		return fmt.Errorf("%w: view of %s waits %d microseconds after heard; at most %v", ErrInvalid, key, v.HeardWait, HeardTTL)
	case v.Debit < 0 || v.Cost < 0 || v.Cost > limit.MaxExact:
		return fmt.Errorf("%w: view of %s has a debit of %d, a cost of %d", ErrInvalid, key, v.Debit, v.Cost)
	case v.RuleSince < 0 || v.RuleSince != 0 && (!v.Before.Valid() || !(limit.Bucket{Rate: v.Slow}).Valid()):
		return fmt.Errorf("%w: view of %s has a limit since %d, %+v and %+v before", ErrInvalid, key, v.RuleSince, v.Slow, v.Before)
	case v.Memory != nil && !memorable(v.Memory):
		return fmt.Errorf("%w: view of %s remembers %+v", ErrInvalid, key, *v.Memory)
	case blind(v) && (!v.LimboFloor.Valid() || v.LimboFloor.Min(v.Floor) != v.LimboFloor):
		return fmt.Errorf("%w: view of %s has a limbo floor of %+v above its floor %+v", ErrInvalid, key, v.LimboFloor, v.Floor)
	}
	h.asksHeard, h.changes = h.asksHeard || asksHeard(v), h.changes || v.RuleSince != 0
	h.remembers = h.remembers || v.Memory != nil
	if v.Algorithm.Counts() {
		h.counts = true
		return admitCounted(key, v)
	}
	return h.admitBucket(key, v)
}

func (h *header) admitBucket(key string, v *limit.View) error {
	if !h.buckets {
		h.buckets, h.phase, h.since, h.birth = true, v.Phase, v.Since, v.Birth
		h.floorSince, h.heardWait, h.blind = v.FloorSince, v.HeardWait, blind(v)
	}
	switch {
	case v.Phase != h.phase || v.Since != h.since || v.Birth != h.birth,
		v.FloorSince != h.floorSince || v.HeardWait != h.heardWait || blind(v) != h.blind:
		return fmt.Errorf("%w: view of %s is of another phase than the call's first bucket", ErrInvalid, key)
	case v.FloorSince != 0 && (!v.Low.Valid() || v.Low.Min(v.Floor) != v.Low):
		return fmt.Errorf("%w: view of %s has a low of %+v above its floor %+v", ErrInvalid, key, v.Low, v.Floor)
	case v.FloorSince < 0 || v.FloorSince > limit.MaxExact:
		return fmt.Errorf("%w: view of %s has floors since %d", ErrInvalid, key, v.FloorSince)
	case v.Extra < 0 || v.Extra > limit.MaxTokens-v.Floor.Cap:
		return fmt.Errorf("%w: view of %s has an extra of %d over a floor of %d", ErrInvalid, key, v.Extra, v.Floor.Cap)
	}
	return checkChunk(key, &v.Chunk)
}

func checkChunk(key string, c *limit.ChunkView) error {
	for _, amount := range [...]limit.Tokens{c.Was, c.Keep, c.Back, c.Want, c.Least} {
		if amount < 0 || amount > limit.MaxTokens {
			return fmt.Errorf("%w: view of %s has a chunk of %d micro-tokens", ErrInvalid, key, amount)
		}
	}
	switch {
	case c.Keep+c.Back > c.Was || c.Keep > 0 && c.Back > 0:
		return fmt.Errorf("%w: view of %s keeps %d and brings back %d of a chunk of %d", ErrInvalid, key, c.Keep, c.Back, c.Was)
	case c.Until < 0 || c.Until > limit.MaxExact || c.Was > 0 && c.Until == 0:
		return fmt.Errorf("%w: view of %s has a chunk until %d", ErrInvalid, key, c.Until)
	case c.Life < 0 || c.Life > limit.MaxChunkLife || c.Want > 0 && c.Life == 0:
		return fmt.Errorf("%w: view of %s wants a chunk for %d microseconds; at most %d", ErrInvalid, key, c.Life, limit.MaxChunkLife)
	}
	return nil
}

// admitCounted checks the fields that each counting limit has for itself.
func admitCounted(key string, v *limit.View) error {
	most := mostRights(v.Algorithm)
	switch {
	case v.Window < 1 || v.Window > MaxWindow.Microseconds():
		return fmt.Errorf("%w: view of %s has a window of %d microseconds; at most %v", ErrInvalid, key, v.Window, MaxWindow)
	case v.Floor.Cap > most || v.Hot && v.Share.Cap > most:
		return fmt.Errorf("%w: view of %s has rights above what a %v may have, %d", ErrInvalid, key, v.Algorithm, most)
	case v.Floor.Rate != limit.Rate{} || v.Hot && v.Share.Rate != limit.Rate{} || v.Extra != 0:
		return fmt.Errorf("%w: view of %s, a %v, has a rate or an extra", ErrInvalid, key, v.Algorithm)
	case v.Lasts < 0 || v.Lasts > limit.MaxExact:
		return fmt.Errorf("%w: view of %s has a slot that lasts %d microseconds", ErrInvalid, key, v.Lasts)
	case v.Chunk.Asked():
		return fmt.Errorf("%w: view of %s, a %v, has a chunk", ErrInvalid, key, v.Algorithm)
	case v.Slot > limit.MaxExact || v.Slot != 0 && v.Algorithm != limit.Concurrency:
		return fmt.Errorf("%w: view of %s has slot %d", ErrInvalid, key, v.Slot)
	case len(v.Held) > 0 && v.Algorithm != limit.Concurrency || len(v.Held) > limit.MaxEntries:
		return fmt.Errorf("%w: view of %s, a %v, holds %d slots", ErrInvalid, key, v.Algorithm, len(v.Held))
	}
	for _, s := range v.Held {
		if s.Slot == 0 || s.Slot > limit.MaxExact || s.Cost <= 0 || s.Cost > most || s.Lasts <= 0 || s.Lasts > limit.MaxExact {
			return fmt.Errorf("%w: view of %s holds the slot %+v", ErrInvalid, key, s)
		}
	}
	return nil
}

// memorable reports whether the scripts can count with what is remembered.
func memorable(m *limit.Memory) bool {
	last := int64(0)
	for _, d := range m.Earlier {
		if d.Used < 0 || d.Used > limit.MaxTokens || d.At < last {
			return false
		}
		last = d.At
	}
	return len(m.Earlier) <= limit.MaxEarlier && m.At >= last && m.Tokens <= limit.MaxTokens && m.Tokens >= -limit.MaxTokens && m.Extra >= 0 && m.Extra <= limit.MaxTokens &&
		m.Used >= 0 && m.Used <= limit.MaxTokens && m.Rights >= 0 && m.Rights <= limit.MaxTokens && m.At <= limit.MaxExact
}

// mostRights bounds a share. An algorithm that remembers every admission separately has room for
// that many.
func mostRights(a limit.Algorithm) limit.Tokens {
	if a.Logs() {
		return limit.MaxEntries * limit.Token
	}
	return limit.MaxTokens
}

// blind reports whether a view's limbo floor matters to a call.
func blind(v *limit.View) bool { return v.Blind && v.Phase != limit.Live }

// asksHeard reports whether heard matters to a call.
func asksHeard(v *limit.View) bool { return v.Phase == limit.Floor && v.HeardWait > 0 }

// CheckGroups returns an error that wraps ErrInvalid if the store cannot count with the groups of
// one call. It does not change the views.
func CheckGroups(epoch string, groups []Group) error {
	_, err := checkGroups(epoch, groups)
	return err
}

func checkGroups(epoch string, groups []Group) (header, error) {
	h := header{stamp: limit.Stamp(epoch)}
	for i := range groups {
		g := &groups[i]
		if g.Cost < 0 || g.Cost > limit.MaxExact {
			return h, fmt.Errorf("%w: cost of %d micro-tokens; it must be from 1 to 2^53-1", ErrInvalid, g.Cost)
		}
		if len(g.Limits) < 1 || len(g.Limits) > MaxLimits {
			return h, fmt.Errorf("%w: a group of %d limits; it must have 1 to %d", ErrInvalid, len(g.Limits), MaxLimits)
		}
		for j := range g.Limits {
			l := &g.Limits[j]
			if err := h.admit(l.Key, &l.View); err != nil {
				return h, err
			}
			if g.Cost == 0 && l.View.Cost == 0 && !l.View.Chunk.Asked() {
				return h, fmt.Errorf("%w: neither the group nor its limit %s has a cost", ErrInvalid, l.Key)
			}
			for _, earlier := range g.Limits[:j] {
				if earlier.Key == l.Key {
					return h, fmt.Errorf("%w: a group names %s twice", ErrInvalid, l.Key)
				}
			}
		}
	}
	return h, nil
}

// CheckChanges is CheckGroups for changes.
func CheckChanges(epoch string, changes []Change) error {
	_, err := checkChanges(epoch, changes)
	return err
}

func checkChanges(epoch string, changes []Change) (header, error) {
	h := header{stamp: limit.Stamp(epoch)}
	for i := range changes {
		c := &changes[i]
		if err := h.admit(c.Key, &c.View); err != nil {
			return h, err
		}
		if chunk := &c.View.Chunk; chunk.Keep != 0 || chunk.Want != 0 {
			return h, fmt.Errorf("%w: change of %s borrows; it can only bring back", ErrInvalid, c.Key)
		}
		counts := c.View.Algorithm.Counts()
		if c.Gen == 0 || c.Gen > limit.MaxExact || !c.Share.Valid() || c.Grant < 0 || c.From < 0 || c.From > limit.MaxExact ||
			counts && (c.Share.Rate != limit.Rate{} || c.Share.Cap > mostRights(c.View.Algorithm) || c.Grant != 0) {
			return h, fmt.Errorf("%w: change of %s: generation %d, grant %d, share %+v, from window %d",
				ErrInvalid, c.Key, c.Gen, c.Grant, c.Share, c.From)
		}
	}
	return h, nil
}
