package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ParamsText are the numbers of a limit as a file states them; what is zero or empty
// is not stated.
type ParamsText struct {
	Capacity int64 `json:"capacity,omitempty"`
	Limit    int64 `json:"limit,omitempty"`
	// RefillRate is a decimal number of requests a second, as text: an edit writes
	// what was said, not a float near it.
	RefillRate string        `json:"refill_rate,omitempty"`
	Window     time.Duration `json:"window_ns,omitempty"`
}

// fields writes what is stated. Which numbers are in bounds is for the reader to say.
func (p ParamsText) fields() ([]field, error) {
	var out []field
	number := func(name, text string) {
		out = append(out, field{name: name, value: &node{kind: kindNumber, text: text}})
	}
	if p.Capacity != 0 {
		number("capacity", strconv.FormatInt(p.Capacity, 10))
	}
	if p.Limit != 0 {
		number("limit", strconv.FormatInt(p.Limit, 10))
	}
	if p.RefillRate != "" {
		if _, why := parseDecimal(p.RefillRate); why != "" {
			return nil, fmt.Errorf("%w: refill_rate %q: %s", ErrBadEdit, shorten(p.RefillRate), why)
		}
		number("refill_rate", p.RefillRate)
	}
	switch {
	case p.Window < 0:
		return nil, fmt.Errorf("%w: window %s is negative", ErrBadEdit, p.Window)
	case p.Window > 0:
		seconds := fmt.Sprintf("%d.%09d", p.Window/time.Second, p.Window%time.Second)
		number("window", strings.TrimRight(strings.TrimRight(seconds, "0"), "."))
	}
	return out, nil
}

// latestMS is the last instant that RFC 3339 can say, in the year 9999.
const latestMS = 253_402_300_799_999

// noteNodes writes until, reason and by, as far as they are said.
func noteNodes(n Note, nowMS int64) ([]field, error) {
	var out []field
	if n.UntilMS != 0 {
		if n.UntilMS <= max(nowMS, 0) {
			return nil, fmt.Errorf("%w: it would end before now", ErrBadEdit)
		}
		until := time.UnixMilli(min(n.UntilMS, latestMS)).UTC().Format(time.RFC3339Nano)
		out = append(out, field{name: "until", value: textNode(until)})
	}
	if !utf8.ValidString(n.Reason + n.By) {
		return nil, fmt.Errorf("%w: the reason or its author is not UTF-8", ErrBadEdit)
	}
	if n.Reason != "" {
		out = append(out, field{name: "reason", value: textNode(n.Reason)})
	}
	if n.By != "" {
		out = append(out, field{name: "by", value: textNode(n.By)})
	}
	return out, nil
}
