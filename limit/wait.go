package limit

import "math/bits"

// wait returns for how many microseconds from now more than most counts, if nothing else is
// admitted. now is the instant that u was brought to, and most is not negative.
func (u *Use) wait(v *View, most Tokens, now int64) int64 {
	if u == nil {
		return 0
	}
	return max(u.Free-now, u.waitForKnown(v, most, now), 0)
}

func (u *Use) waitForKnown(v *View, most Tokens, now int64) int64 {
	switch {
	case u.known(v, now) <= most:
		return 0
	case v.Algorithm.Logs():
		return u.waitForEntries(most, now)
	}
	left := v.Window - now%v.Window // of the present window
	switch {
	case v.Algorithm == FixedWindow:
		return left
	case u.Cur <= most:
		return left - fades(u.Prev, most-u.Cur, v.Window)
	default:
		return left + v.Window - fades(u.Cur, most, v.Window)
	}
}

// fades returns how long before the end of a window at most most is left of what the previous
// window admitted. prev is above most.
func fades(prev, most Tokens, window int64) int64 {
	hi, lo := bits.Mul64(uint64(most), uint64(window))
	q, _ := bits.Div64(hi, lo, uint64(prev))
	return int64(q)
}

func (u *Use) waitForEntries(most Tokens, now int64) int64 {
	left := Tokens(0)
	for _, e := range u.Entries {
		left += e.Cost
	}
	for _, e := range u.Entries {
		if left -= e.Cost; left <= most {
			return e.Until - now
		}
	}
	return 0
}

// retry returns how long a cost has to wait if nothing else is admitted and the share stays as it
// is. It returns -1 for a cost above the share.
func (u *Use) retry(v *View, share, cost Tokens, now int64) int64 {
	switch {
	case cost > share:
		return -1
	case u != nil && u.HeldLabel != 0:
		return v.Window - now%v.Window // all of the share counts again, and nothing is in use
	default:
		return u.wait(v, share-cost, now)
	}
}
