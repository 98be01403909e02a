package lua

import "aliquot/limit"

// Call is one script call for one slot of a Redis Cluster. Its creator sends it. The views in it
// must not use HeardWait, because HeardKey is in another slot.
type Call struct {
	script script
	args   []any
}

// Args returns the arguments of the command: with the script's name, or with its text for a server
// that does not know the name (NOSCRIPT). The result belongs to the call.
func (c *Call) Args(withText bool) []any {
	c.args[0], c.args[1] = "evalsha", c.script.sha
	if withText {
		c.args[0], c.args[1] = "eval", c.script.source
	}
	return c.args
}

// call prepares arguments for a slot. Their first key becomes the slot's epoch key.
func call(sc script, epochKey string, args []any) *Call {
	args[firstKey-1] = epochKey
	return &Call{script: sc, args: args}
}

// TakeCall returns the call that decides groups, at most TakeChunk. All their keys must be in the
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

// ApplyCall returns the call that makes changes, at most ApplyChunk. All their keys must be in the
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

// AdjustCall returns the call that replaces what was charged by what was used of it. All keys of
// the parts must be in the slot of epochKey. It must not be sent twice.
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

// MarkCall returns the call that ends a reservation and adjusts nothing: its limits are in other slots.
// The parts of end say only by when it must be decided.
func (s *Scripts) MarkCall(epochKey, epoch string, end Settlement) (*Call, error) {
	of, err := checkSettlement(epoch, &end)
	if err != nil {
		return nil, err
	}
	end.Parts = nil
	return call(s.settle, epochKey, settleArgs(epoch, &header{stamp: of.stamp, deadline: of.deadline}, &end)), nil
}

// ReadMark reads the reply to a MarkCall.
func ReadMark(reply []any) (Settled, int64, error) { return readSettle(reply, 0) }

// MintCall returns the call that names the contents of a slot, as LearnEpoch does. found is what
// was read there, nonce is fresh random text, and servers names the servers.
func (s *Scripts) MintCall(epochKey, found, nonce, servers string) *Call {
	return &Call{script: s.mint, args: []any{nil, nil, 1, epochKey, found, nonce, servers}}
}

// SpreadCall returns the call that replaces a text, an epoch or a reservation, if the key still
// holds what was read. The reply is what the key holds afterwards.
func (s *Scripts) SpreadCall(key, found, text string) *Call {
	return &Call{script: s.propagate, args: []any{nil, nil, 1, key, found, text}}
}
