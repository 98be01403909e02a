package lua

import "aliquot/limit"

// Call is one script call, for one slot of a Redis Cluster, which its maker sends. The
// views in it must not ask for heard, which stands in another slot.
type Call struct {
	script script
	args   []any
}

// Args are the words of the command, by the script's name or with its text, which a
// server that does not know the name asks for (NOSCRIPT). They are the call's.
func (c *Call) Args(withText bool) []any {
	c.args[0], c.args[1] = "evalsha", c.script.sha
	if withText {
		c.args[0], c.args[1] = "eval", c.script.source
	}
	return c.args
}

// call words arguments, whose first key is that of the epoch, for a slot.
func call(sc script, epochKey string, args []any) *Call {
	args[firstKey-1] = epochKey
	return &Call{script: sc, args: args}
}

// TakeCall is the call that decides groups, at most TakeChunk, whose keys are all of the
// slot of epochKey.
func (s *Scripts) TakeCall(epochKey, epoch string, groups []Group) (*Call, error) {
	h, err := checkGroups(epoch, groups)
	if err != nil {
		return nil, err
	}
	return call(s.takeOf(&h), epochKey, takeArgs(epoch, &h, groups)), nil
}

// ReadTake reads the reply to a TakeCall; see Take.
func ReadTake(reply []any, groups []Group) ([]Result, int64, error) {
	return readTake(nil, reply, groups)
}

// ApplyCall is the call that makes changes, at most ApplyChunk, whose keys are all of the
// slot of epochKey.
func (s *Scripts) ApplyCall(epochKey, epoch string, changes []Change) (*Call, error) {
	h, err := checkChanges(epoch, changes)
	if err != nil {
		return nil, err
	}
	return call(s.apply, epochKey, applyArgs(epoch, &h, changes, false)), nil
}

// ReadApply reads the reply to an ApplyCall; see Apply.
func ReadApply(reply []any, changes []Change) ([]limit.Applied, int64, error) {
	return readApply(nil, reply, changes)
}

// AdjustCall is the call that replaces what was charged by what was used of it, for
// parts whose keys are all of the slot of epochKey. It must not be sent twice.
func (s *Scripts) AdjustCall(epochKey, epoch string, parts []Part) (*Call, error) {
	h := header{stamp: limit.Stamp(epoch)}
	if err := h.admitParts(parts); err != nil {
		return nil, err
	}
	return call(s.adjust, epochKey, adjustArgs(epoch, &h, parts)), nil
}

// ReadAdjust reads the reply to an AdjustCall.
func ReadAdjust(reply []any, parts int) ([]limit.Adjusted, int64, error) {
	out, now, err := readSettle(reply, parts)
	return out.Adjusted, now, err
}

// MintCall is the call that names the contents of a slot, as LearnEpoch does: what was
// read there, fresh random text, and what names the servers.
func (s *Scripts) MintCall(epochKey, found, nonce, servers string) *Call {
	return &Call{script: s.mint, args: []any{nil, nil, 1, epochKey, found, nonce, servers}}
}

// SpreadCall is the call that replaces a text, an epoch or a reservation, if what was read
// there is still there; the reply is what is there afterwards.
func (s *Scripts) SpreadCall(key, found, text string) *Call {
	return &Call{script: s.spread, args: []any{nil, nil, 1, key, found, text}}
}
