package lua

import (
	"fmt"
	"strconv"
	"strings"

	"aliquot/limit"
)

// FormatRecord returns the text under a record's key, which is made to be read with GET. The text of
// a bucket is
//
//	c <stamp> <tokens> <at> <carry> [<gen>]                  cold; gen is a fence
//	h <stamp> <tokens> <at> <carry> <gen> <cap> <rate> <frac> [<extra>]  hot
//
// Extra is there only if it is not 0. If some tokens are lent, "l <lent> <until> " comes first.
// Amounts are micro-tokens (tokens below 0 are owed), at is in microseconds, and the stamp is 8 hex
// digits. windows.lua and log.lua describe the texts of counting limits.
func FormatRecord(a limit.Algorithm, r limit.Record) string {
	switch {
	case !a.Counts():
		return formatBucket(r)
	case a.Logs():
		return formatLog(r)
	default:
		return formatWindows(r)
	}
}

// ParseRecord reads what FormatRecord wrote. For any other text it returns limit.Untrusted and
// false, because a request may have spent from it.
func ParseRecord(a limit.Algorithm, text string) (limit.Record, bool) {
	parse := parseWindows
	switch {
	case !a.Counts():
		parse = parseBucket
	case a.Logs():
		parse = parseLog
	}
	if r, ok := parse(text); ok {
		return r, true
	}
	return limit.Untrusted(), false
}

func formatBucket(r limit.Record) string {
	if r.Lent > 0 {
		lent, until := r.Lent, r.LentUntil
		r.Lent = 0
		return fmt.Sprintf("l %d %d %s", lent, until, formatBucket(r))
	}
	text := fmt.Sprintf("c %08x %d %d %d", r.Stamp, r.Tokens, r.At, r.Carry)
	switch {
	case r.Hot:
		text = fmt.Sprintf("h%s %d %d %d %d", text[1:], r.Gen, r.Share.Cap, r.Share.Rate.Micro, r.Share.Rate.Frac)
		if r.Extra > 0 {
			return fmt.Sprintf("%s %d", text, r.Extra)
		}
		return text
	case r.Gen > 0:
		return fmt.Sprintf("%s %d", text, r.Gen)
	}
	return text
}

func parseBucket(text string) (limit.Record, bool) {
	loan, rest, ok := cutLoan(text)
	if !ok {
		return limit.Record{}, false
	}
	r, ok := parseOwn(rest)
	r.Lent, r.LentUntil = limit.Tokens(loan[0]), loan[1]
	return r, ok
}

// cutLoan reads the loan in front of the text of a bucket that has lent something.
func cutLoan(text string) (loan [2]int64, rest string, ok bool) {
	rest, lent := strings.CutPrefix(text, "l ")
	if !lent {
		return loan, rest, true
	}
	for i, most := range [...]int64{int64(limit.MaxTokens), limit.MaxExact} {
		digits, after, found := strings.Cut(rest, " ")
		u, err := strconv.ParseUint(digits, 10, 63)
		if !found || err != nil || int64(u) > most {
			return loan, "", false
		}
		loan[i], rest = int64(u), after
	}
	return loan, rest, loan[0] > 0
}

// parseOwn reads the text of a bucket without its loan.
func parseOwn(text string) (limit.Record, bool) {
	hot, stamp, n, ok := numbers(text, []int64{int64(limit.MaxTokens), limit.MaxExact, 999_999, limit.MaxExact,
		int64(limit.MaxTokens), int64(limit.MaxTokens), 999_999, int64(limit.MaxTokens)}, true)
	if !ok || hot && len(n) != 7 && len(n) != 8 || !hot && len(n) != 3 && len(n) != 4 {
		return limit.Record{}, false
	}
	n = append(n, make([]int64, 8-len(n))...)
	return limit.Record{
		Hot: hot, Stamp: stamp, Tokens: limit.Tokens(n[0]), At: n[1], Carry: n[2], Gen: uint64(n[3]),
		Share: limit.Bucket{Cap: limit.Tokens(n[4]), Rate: limit.Rate{Micro: n[5], Frac: n[6]}},
		Extra: limit.Tokens(n[7]),
	}, true
}

// numbers reads the start of every text: whether the record is hot, the stamp, and the numbers that
// follow. Number i is at most most[i]. With debts, the first one may be as far below 0.
func numbers(text string, most []int64, debts bool) (hot bool, stamp uint32, n []int64, ok bool) {
	fields := strings.Split(text, " ")
	if hot = fields[0] == "h"; !hot && fields[0] != "c" || len(fields) < 3 || len(fields)-2 > len(most) {
		return false, 0, nil, false
	}
	u, err := strconv.ParseUint(fields[1], 16, 32)
	if err != nil || len(fields[1]) != 8 {
		return false, 0, nil, false
	}
	for i, f := range fields[2:] {
		digits, negative := strings.CutPrefix(f, "-")
		u, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || int64(u) > most[i] || negative && (i > 0 || !debts) {
			return false, 0, nil, false
		}
		if negative {
			u = -u
		}
		n = append(n, int64(u))
	}
	return hot, uint32(u), n, true
}
