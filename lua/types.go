// Package lua holds the scripts that decide inside Redis, and typed functions over
// them. It alone knows the order of their KEYS and ARGV and the text of a record.
// Package limit is the scripts' reference: same arguments, same answer.
package lua

import (
	"errors"
	"fmt"

	"aliquot/limit"
)

// Group is one request: a cost in micro-tokens that all its limits have to hold, or
// none is charged. The keys of one group differ; groups of one call may repeat them.
type Group struct {
	Cost   limit.Tokens
	Limits []KeyView
}

// KeyView names a record, by Key, and the caller's right to spend it. Phase, Since,
// Until, Birth, Stamp, FloorSince, HeardWait, Deadline and Blind are the same in all views of one call:
// one daemon speaks at one instant. Heard is the store's to know, and not looked at.
type KeyView struct {
	Key  string
	View limit.View
}

// Result is the answer to one Group; Limits are in the order asked.
type Result struct {
	Allowed bool
	Limits  []limit.Outcome
}

// Change is a new share of one key. What KeyView says of views holds here too.
type Change struct {
	Key string
	limit.Change
}

// EpochError tells that the store's contents are not the ones the caller expected:
// nothing was read or written. Actual is their redis epoch, empty if they have none
// yet. The remedy is to learn the epoch anew and open a new session.
type EpochError struct{ Actual string }

func (e *EpochError) Error() string {
	if e.Actual == "" {
		return "lua: the store lost its contents: it has no epoch; learn a new one"
	}
	return fmt.Sprintf("lua: the store has other contents: its epoch is %q; learn it anew", e.Actual)
}

// LateError tells that a take reached the store after its deadline: nothing was read
// or written. Either it was stuck on its way, and nobody waits for it any more, or
// the store's clock was set forward, and the caller has to learn it anew.
type LateError struct{ Now int64 } // the store's clock, microseconds

func (e *LateError) Error() string {
	return fmt.Sprintf("lua: the call reached the store after its deadline, at %d by the store's clock", e.Now)
}

// ErrInvalid is wrapped by every error about arguments the store cannot count with,
// a bug of the caller. It says nothing about the store's health.
var ErrInvalid = errors.New("lua: invalid argument")

const (
	// MaxLimits bounds the limits of one group: duplicates are looked for in pairs.
	MaxLimits = 64
	// MaxKeyBytes bounds a key's name; Key makes shorter ones.
	MaxKeyBytes = 128
)

// header is what all views of one call share.
type header struct {
	phase               limit.Phase
	since, until, birth int64
	floorSince          int64
	heardWait           int64
	deadline            int64
	blind               bool // and in phase Floor
	stamp               uint32
}

func headerOf(epoch string, first limit.View) header {
	return header{
		phase: first.Phase, since: first.Since, until: first.Until,
		birth: first.Birth, stamp: limit.Stamp(epoch),
		floorSince: first.FloorSince, heardWait: first.HeardWait,
		deadline: first.Deadline, blind: first.Blind && first.Phase == limit.Floor,
	}
}

// asksHeard tells whether heard matters to a call.
func (h *header) asksHeard() bool { return h.phase == limit.Floor && h.heardWait > 0 }

// admit checks one key and view against the header and the bounds of the scripts.
func (h *header) admit(key string, v *limit.View) error {
	switch {
	case key == "" || len(key) > MaxKeyBytes:
		return fmt.Errorf("%w: a key of %d bytes; make it with lua.Key", ErrInvalid, len(key))
	case v.Stamp != h.stamp:
		return fmt.Errorf("%w: view of %s has stamp %08x, the epoch's is %08x", ErrInvalid, key, v.Stamp, h.stamp)
	case v.Phase != h.phase || v.Since != h.since || v.Until != h.until || v.Birth != h.birth,
		v.FloorSince != h.floorSince || v.HeardWait != h.heardWait || v.Deadline != h.deadline:
		return fmt.Errorf("%w: view of %s is of another phase than the call's first", ErrInvalid, key)
	case v.Phase > limit.Floor:
		return fmt.Errorf("%w: view of %s has phase %d", ErrInvalid, key, v.Phase)
	case v.Gen > limit.MaxExact || v.Hot && v.Gen == 0:
		return fmt.Errorf("%w: view of %s has generation %d", ErrInvalid, key, v.Gen)
	case !v.Floor.Valid() || v.Hot && !v.Share.Valid():
		return fmt.Errorf("%w: view of %s has a bucket out of range", ErrInvalid, key)
	case v.Extra < 0 || v.Extra > limit.MaxTokens-v.Floor.Cap:
		return fmt.Errorf("%w: view of %s has an extra of %d over a floor of %d", ErrInvalid, key, v.Extra, v.Floor.Cap)
	case v.FloorSince != 0 && (!v.Low.Valid() || v.Low.Min(v.Floor) != v.Low):
		return fmt.Errorf("%w: view of %s has a low of %+v above its floor %+v", ErrInvalid, key, v.Low, v.Floor)
	case (v.Blind && v.Phase == limit.Floor) != h.blind,
		h.blind && (!v.LimboFloor.Valid() || v.LimboFloor.Min(v.Floor) != v.LimboFloor):
		return fmt.Errorf("%w: view of %s is not blind as the call's first, or has a limbo floor of %+v above its floor %+v", ErrInvalid, key, v.LimboFloor, v.Floor)
	case v.FloorSince < 0 || v.FloorSince > limit.MaxExact:
		return fmt.Errorf("%w: view of %s has floors since %d", ErrInvalid, key, v.FloorSince)
	case v.HeardWait < 0 || v.HeardWait > HeardTTL.Microseconds():
		return fmt.Errorf("%w: view of %s waits %d microseconds after heard; at most %v", ErrInvalid, key, v.HeardWait, HeardTTL)
	case v.Debit < 0:
		return fmt.Errorf("%w: view of %s has a negative debit", ErrInvalid, key)
	}
	return nil
}

// CheckGroups tells whether the store can count with groups, all of one call; the
// error wraps ErrInvalid. Views change nothing on the way.
func CheckGroups(epoch string, groups []Group) error {
	_, err := checkGroups(epoch, groups)
	return err
}

func checkGroups(epoch string, groups []Group) (header, error) {
	var h header
	for i := range groups {
		g := &groups[i]
		if g.Cost < 1 || g.Cost > limit.MaxExact {
			return h, fmt.Errorf("%w: cost of %d micro-tokens; it must be from 1 to 2^53-1", ErrInvalid, g.Cost)
		}
		if len(g.Limits) < 1 || len(g.Limits) > MaxLimits {
			return h, fmt.Errorf("%w: a group of %d limits; it must have 1 to %d", ErrInvalid, len(g.Limits), MaxLimits)
		}
		if i == 0 {
			h = headerOf(epoch, g.Limits[0].View)
		}
		for j := range g.Limits {
			l := &g.Limits[j]
			if err := h.admit(l.Key, &l.View); err != nil {
				return h, err
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
	var h header
	for i := range changes {
		c := &changes[i]
		if i == 0 {
			h = headerOf(epoch, c.View)
		}
		if err := h.admit(c.Key, &c.View); err != nil {
			return h, err
		}
		if c.Gen == 0 || c.Gen > limit.MaxExact || !c.Share.Valid() || c.Grant < 0 {
			return h, fmt.Errorf("%w: change of %s: generation %d, grant %d, share %+v",
				ErrInvalid, c.Key, c.Gen, c.Grant, c.Share)
		}
	}
	return h, nil
}
