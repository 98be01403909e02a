package limit

// Memory is what a daemon knows of a record that its store has lost together with all its contents.
// It replaces the record if the present contents have none. The daemon has been the only one of its
// region that spends. So Memory holds no more tokens than the record did, less what the daemon's
// calls may have taken, and no less use than there was.
//
// Worked number: of a fixed window of 100 a minute the store reported at 12 s that 40 were in use.
// It is flushed at 20 s. The next take reports that 40 were in use at 12 s, and 60 more are
// admitted until 60 s.
type Memory struct {
	// Tokens is what a bucket holds now; it is below 0 if the bucket owes tokens. Extra is what it
	// holds above that (Hot only).
	Tokens, Extra Tokens
	// Used was in use at the time At of the store's clock, in microseconds. Rights is the most of
	// the share that counted in that window. All three are for a counting limit.
	Used, Rights Tokens
	At           int64
}

// remembered returns the record that a daemon knows of, with the bucket in force.
func (v *View) remembered(enforced Bucket, now int64) Record {
	r := Record{Hot: v.Hot}
	if v.Hot {
		r.Gen, r.Share = v.Gen, v.Share
	}
	m := v.Memory
	switch {
	case v.Algorithm.Counts():
		r.Use = m.use(v, now)
	case v.Hot:
		r.Tokens, r.Extra = min(m.Tokens, enforced.Cap), min(m.Extra, v.Extra)
	default:
		r.Tokens = min(m.Tokens, v.Cold().Cap)
	}
	return r
}

// use returns the use that a daemon knows of. A window that has not begun by the present clock
// belongs to another clock, so nothing is known.
func (m *Memory) use(v *View, now int64) *Use {
	if v.Algorithm.Logs() {
		if m.Used == 0 || m.At+v.Window <= now {
			return nil
		}
		return &Use{Entries: []Entry{{Until: min(m.At+v.Window, MaxExact), Cost: min(m.Used, mostEntry)}}}
	}
	then, current := label(min(m.At, MaxExact), v.Window), label(now, v.Window)
	if then > current {
		return blocked(now + tail(v.Algorithm, v.Window))
	}
	u := Use{Window: v.Window, Label: current}
	switch {
	case then == current:
		u.Cur = min(m.Used, mostUse)
		if v.Algorithm == FixedWindow {
			u.Held, u.HeldLabel = m.Rights, current
		}
	case then == current-1 && v.Algorithm == SlidingCounter:
		u.Prev = min(m.Used, mostUse)
	}
	return &u
}
