package lua

import (
	"fmt"
	"strconv"
	"strings"

	"aliquot/limit"
)

// FormatRecord is the text under a record's key, made to be read with GET:
//
//	c <stamp> <tokens> <at> <carry> [<gen>]                  cold; gen is a fence
//	h <stamp> <tokens> <at> <carry> <gen> <cap> <rate> <frac> [<extra>]  hot
//
// Extra is there only if it is not 0. Amounts are micro-tokens, at is in microseconds, the stamp is 8 hex digits.
func FormatRecord(r limit.Record) string {
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

// ParseRecord reads what FormatRecord wrote. Any other text gives
// limit.Untrusted and false: somebody may have spent there.
func ParseRecord(text string) (limit.Record, bool) {
	fields := strings.Split(text, " ")
	hot := fields[0] == "h" && (len(fields) == 9 || len(fields) == 10)
	if !hot && (fields[0] != "c" || len(fields) != 5 && len(fields) != 6) {
		return limit.Untrusted(), false
	}
	stamp, err := strconv.ParseUint(fields[1], 16, 32)
	if err != nil || len(fields[1]) != 8 {
		return limit.Untrusted(), false
	}
	most := [...]int64{int64(limit.MaxTokens), limit.MaxExact, 999_999, limit.MaxExact,
		int64(limit.MaxTokens), int64(limit.MaxTokens), 999_999, int64(limit.MaxTokens)}
	var n [len(most)]int64
	for i, f := range fields[2:] {
		u, err := strconv.ParseUint(f, 10, 63)
		if err != nil || int64(u) > most[i] {
			return limit.Untrusted(), false
		}
		n[i] = int64(u)
	}
	return limit.Record{
		Hot: hot, Stamp: uint32(stamp), Tokens: limit.Tokens(n[0]), At: n[1], Carry: n[2], Gen: uint64(n[3]),
		Share: limit.Bucket{Cap: limit.Tokens(n[4]), Rate: limit.Rate{Micro: n[5], Frac: n[6]}},
		Extra: limit.Tokens(n[7]),
	}, true
}
