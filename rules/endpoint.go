package rules

import (
	"strings"

	"aliquot/rules/source"
)

// idSegment stands for an id in a normalised endpoint.
const idSegment = ":id"

// minHexID is the length from which a run of hexadecimal digits counts as an id (a 64-bit number).
// Shorter runs are often words.
const minHexID = 16

// NormalizeEndpoint returns one name for endpoints that differ only in ids: it cuts off query and
// fragment, and replaces each path segment that is an id by ":id". Ids are all digits, UUIDs, 16 or
// more hexadecimal digits, and ULIDs (26 characters of Crockford's base 32). So "/v1/orders/42?x=1"
// becomes "/v1/orders/:id". A second application changes nothing. It allocates only when it
// replaces something.
func NormalizeEndpoint(path string) string {
	path = pathOf(path)
	for rest := path; rest != ""; {
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		if isID(segment) {
			return string(appendNormalized(make([]byte, 0, len(path)+len(idSegment)), path))
		}
	}
	return path
}

// appendNormalized appends NormalizeEndpoint(path) to dst.
func appendNormalized(dst []byte, path string) []byte {
	path = pathOf(path)
	for {
		segment, rest, more := strings.Cut(path, "/")
		if isID(segment) {
			segment = idSegment
		}
		dst = append(dst, segment...)
		if !more {
			return dst
		}
		dst = append(dst, '/')
		path = rest
	}
}

func isID(s string) bool {
	if s == "" {
		return false
	}
	return source.AllDigits(s) || len(s) >= minHexID && allHex(s) || isUUID(s) || isULID(s)
}

func allHex(s string) bool {
	for i := range len(s) {
		if !isHex(s[i]) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// isUUID reports whether s has the 8-4-4-4-12 form.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !isHex(s[i]) {
			return false
		}
	}
	return true
}

// isULID reports whether s is 128 bits in Crockford's base 32: 26 characters, the first at most 7,
// and no I, L, O or U.
func isULID(s string) bool {
	if len(s) != 26 || s[0] < '0' || s[0] > '7' {
		return false
	}
	for i := range len(s) {
		c := s[i] &^ 0x20 // upper case, for letters
		letter := c >= 'A' && c <= 'Z' && !strings.ContainsRune("ILOU", rune(c))
		if !letter && (s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}
