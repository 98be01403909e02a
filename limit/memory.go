package limit

// Memory is what a daemon knows of a record that its store has lost together with all its
// contents. It stands for the record where there is none of the present contents. The daemon has
// been the only one of its region that spends, so it tells no more than the record held, less what
// the daemon's calls may have taken, and no less than what was in use.
//
// Worked number: of a fixed window of 100 a minute the store told at 12 s that 40 were in use. It is
// flushed at 20 s. The next take says that 40 were in use at 12 s, and 60 more pass until 60 s.
type Memory struct {
	// Tokens are what a bucket holds now, and Extra what it holds above that (Hot only); Tokens are
	// below 0 where some are owed.
	Tokens, Extra Tokens
	// Used was in use at the time At of the store's clock, microseconds, and Rights the most that
	// counted of the share in the window then (for a limit that counts).
	Used, Rights Tokens
	At           int64
}

// remembered is the record that a daemon knows of, with the bucket in force.
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

// use is what a daemon knows to have been in use. A window that had not begun by the present clock
// is of another clock: nothing is known then.
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
