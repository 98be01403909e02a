package lua

import (
	"fmt"
	"strconv"
	"strings"

	"aliquot/limit"
)

// The texts of the records of counting limits are described in windows.lua and log.lua.

// mostUse is the most that the scripts count of a window. mostInstant is the last instant.
const (
	mostUse     = 2 * int64(limit.MaxTokens)
	mostInstant = limit.MaxExact
)

func formatWindows(r limit.Record) string {
	var u limit.Use
	if r.Use != nil {
		u = *r.Use
	}
	held := int64(0)
	if u.HeldLabel != 0 {
		held = int64(u.Held) + 1
	}
	return start(r, u.Window, int64(u.Cur), int64(u.Prev), int64(r.Gen), int64(r.Share.Cap), u.Free, held)
}

// start writes the start of a record's text: hot or cold, its stamp, its at, and numbers without
// the trailing zeros.
func start(r limit.Record, n ...int64) string {
	letter := "c"
	if r.Hot {
		letter = "h"
	}
	for len(n) > 0 && n[len(n)-1] == 0 {
		n = n[:len(n)-1]
	}
	b := fmt.Appendf(nil, "%s %08x %d", letter, r.Stamp, r.At)
	for _, x := range n {
		b = strconv.AppendInt(append(b, ' '), x, 10)
	}
	return string(b)
}

func parseWindows(text string) (limit.Record, bool) {
	hot, stamp, n, ok := numbers(text, []int64{mostInstant, MaxWindow.Microseconds(), mostUse, mostUse,
		limit.MaxExact, int64(limit.MaxTokens), mostInstant, int64(limit.MaxTokens) + 1}, false)
	if !ok {
		return limit.Record{}, false
	}
	n = append(n, make([]int64, 8-len(n))...)
	r := limit.Record{Hot: hot, Stamp: stamp, At: n[0], Gen: uint64(n[4]), Share: limit.Bucket{Cap: limit.Tokens(n[5])}}
	u := limit.Use{Window: n[1], Cur: limit.Tokens(n[2]), Prev: limit.Tokens(n[3]), Free: n[6]}
	if u.Window == 0 {
		if u.Cur != 0 || u.Prev != 0 || n[7] != 0 {
			return limit.Record{}, false
		}
	} else {
		u.Label = u.LabelOf(r.At)
	}
	if n[7] != 0 {
		u.Held, u.HeldLabel = limit.Tokens(n[7]-1), u.Label
	}
	if u.Window != 0 || u.Free != 0 {
		r.Use = &u
	}
	return r, true
}

func formatLog(r limit.Record) string {
	var u limit.Use
	if r.Use != nil {
		u = *r.Use
	}
	sum, span := int64(0), int64(0)
	var entries []byte
	for i, e := range u.Entries {
		sum += int64(e.Cost)
		if i > 0 {
			span += e.Until - u.Entries[i-1].Until
			entries = strconv.AppendInt(append(entries, ' '), e.Until-u.Entries[i-1].Until, 10)
		} else {
			entries = strconv.AppendInt(append(entries, ';'), e.Until, 10)
		}
		switch {
		case e.Slot > 0:
			entries = fmt.Appendf(entries, ":%d:%d", e.Cost, e.Slot)
		case e.Cost != limit.Token:
			entries = fmt.Appendf(entries, ":%d", e.Cost)
		}
	}
	return start(r, int64(len(u.Entries)), sum, span, int64(r.Gen), int64(r.Share.Cap), u.Free) + string(entries)
}

func parseLog(text string) (limit.Record, bool) {
	head, list, _ := strings.Cut(text, ";")
	hot, stamp, n, ok := numbers(head, []int64{mostInstant, mostInstant, mostInstant, mostInstant,
		limit.MaxExact, int64(limit.MaxTokens), mostInstant}, false)
	if !ok {
		return limit.Record{}, false
	}
	n = append(n, make([]int64, 7-len(n))...)
	r := limit.Record{Hot: hot, Stamp: stamp, At: n[0], Gen: uint64(n[4]), Share: limit.Bucket{Cap: limit.Tokens(n[5])}}
	entries, ok := parseEntries(list)
	if !ok || int64(len(entries)) != n[1] || formatLog(limit.Record{Use: &limit.Use{Entries: entries}}) !=
		start(limit.Record{}, n[1], n[2], n[3])+text[len(head):] {
		return limit.Record{}, false // the sums are wrong
	}
	if len(entries) > 0 || n[6] != 0 {
		r.Use = &limit.Use{Free: n[6], Entries: entries}
	}
	return r, true
}

func parseEntries(list string) (entries []limit.Entry, ok bool) {
	if list == "" {
		return nil, true
	}
	until := int64(0)
	for text := range strings.SplitSeq(list, " ") {
		fields := strings.Split(text, ":")
		n := [3]int64{1: int64(limit.Token)}
		if len(fields) > len(n) {
			return nil, false
		}
		for i, f := range fields {
			u, err := strconv.ParseUint(f, 10, 53)
			if err != nil {
				return nil, false
			}
			n[i] = int64(u)
		}
		until += n[0]
		entries = append(entries, limit.Entry{Until: until, Cost: limit.Tokens(n[1]), Slot: uint64(n[2])})
	}
	return entries, true
}
