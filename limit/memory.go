package limit

import "slices"

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
	// Earlier was in use beside Used, and admitted before At: at most MaxEarlier parts, the oldest
	// first (logs and the sliding counter only).
	Earlier []DatedUse
}

// DatedUse is a part of what is in use of a counting limit, admitted at the time At of the store's
// clock at the latest, in microseconds.
type DatedUse struct {
	Used Tokens
	At   int64
}

// MaxEarlier is the largest number of Memory.Earlier.
const MaxEarlier = 4

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
	all := append(slices.Clip(m.Earlier), DatedUse{m.Used, m.At})
	if v.Algorithm.Logs() {
		return logUse(all, v.Window, now)
	}
	current := label(now, v.Window)
	if label(min(m.At, MaxExact), v.Window) > current {
		return blocked(now + tail(v.Algorithm, v.Window))
	}
	u := Use{Window: v.Window, Label: current}
	for _, d := range all {
		switch then := label(d.At, v.Window); {
		case then == current:
			u.Cur = min(u.Cur+d.Used, mostUse)
			if v.Algorithm == FixedWindow {
				u.Held, u.HeldLabel = m.Rights, current
			}
		case then == current-1 && v.Algorithm.SeesPrevious():
			u.Prev = min(u.Prev+d.Used, mostUse)
		}
	}
	return &u
}

// logUse returns the use of a log of which parts are known, the oldest first. A time to come is of another clock: what
// was in use then was admitted by now.
func logUse(parts []DatedUse, window, now int64) *Use {
	var u *Use
	for _, d := range parts {
		if until := min(min(d.At, now)+window, MaxExact); d.Used > 0 && until > now {
			if u == nil {
				u = &Use{}
			}
			u.Entries = insert(u.Entries, Entry{Until: until, Cost: d.Used})
		}
	}
	return u
}
