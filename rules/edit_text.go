package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"aliquot/limit"
)

// ParamsText are the numbers of a limit as a file states them; what is zero or empty
// is not stated.
type ParamsText struct {
	Capacity, Limit int64
	// RefillRate is a decimal number of requests a second, as text: an edit writes
	// what was said, not a float near it.
	RefillRate string
	Window     time.Duration
}

// laidOver are the fields of params when new ones are laid over them.
func laidOver(stated []field, before *node) []field {
	d := &decoder{problems: &problems{}}
	near := d.params(mappingNode(stated...), "params")
	out := near.over(d.params(before, "params"))
	keeps := map[string]bool{"capacity": out.capacity != 0, "limit": out.limit != 0, "refill_rate": out.rate != (limit.Rate{}), "window": out.window != 0}
	var fields []field
	for _, f := range before.fields {
		if keeps[f.name] && mappingNode(stated...).field(f.name) == nil {
			fields = append(fields, f)
		}
	}
	return append(fields, stated...)
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
