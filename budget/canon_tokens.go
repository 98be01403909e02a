package budget

// Unsettled returns how many released tokens of a key, in micro-tokens, are neither in a store nor
// lost. granted are on their way to a region that grows. pooled are in the leader's pool or on
// their way to it. regions are the state machines whose sessions are examined, in any order. Tokens
// on their way in a session that one side has closed count as lost, although they may not be. It is
// for model checking: together with what stores hold it is invariant I2.
func (l *Leader) Unsettled(k KeyID, regions []*Region) (granted, pooled int64) {
	key := l.keys[k]
	if key == nil {
		return 0, 0
	}
	pooled = key.pool
	if l.committing != nil {
		for _, g := range l.committing.grows {
			if g.key == k {
				granted += g.grant
			}
		}
	}
	for i := range key.regions {
		if kr := &key.regions[i]; kr.pending {
			granted += kr.grant
		}
	}
	for _, r := range regions {
		lr, s := &l.regions[r.self], &r.session
		h, kr := r.hot[k], &key.regions[r.self]
		if h == nil || !s.open || !lr.open || s.epoch != l.epoch || s.id != lr.session {
			continue
		}
		granted += kr.granted - h.granted
		pooled += h.released - kr.released
	}
	return granted, pooled
}
