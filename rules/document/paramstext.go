package document

import (
	"aliquot/rules/source"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParamsText are the numbers of a limit in the form in which people state them. Zero or empty means
// not stated.
type ParamsText struct {
	Capacity int64 `json:"capacity,omitempty"`
	Limit    int64 `json:"limit,omitempty"`
	// RefillRate is a decimal number of requests a second. It is the text as written, not a float
	// close to it.
	RefillRate string        `json:"refill_rate,omitempty"`
	Window     time.Duration `json:"window_ns,omitempty"`
}

// String returns the numbers for people, such as "limit 500, window 1m0s".
func (p ParamsText) String() string {
	var out []string
	state := func(name string, is bool, value any) {
		if is {
			out = append(out, fmt.Sprintf("%s %v", name, value))
		}
	}
	state("limit", p.Limit != 0, p.Limit)
	state("capacity", p.Capacity != 0, p.Capacity)
	state("refill_rate", p.RefillRate != "", p.RefillRate)
	state("window", p.Window != 0, p.Window)
	return strings.Join(out, ", ")
}

// Read converts the numbers like those of a file. why says what is wrong with them under any rule,
// or is "".
func (p ParamsText) Read() (out Params, why string) {
	n := &source.Node{Kind: source.KindMapping}
	number := func(name, text string) {
		n.Fields = append(n.Fields, source.Field{Name: name, Value: &source.Node{Kind: source.KindNumber, Text: text}})
	}
	if p.Capacity != 0 {
		number("capacity", strconv.FormatInt(p.Capacity, 10))
	}
	if p.Limit != 0 {
		number("limit", strconv.FormatInt(p.Limit, 10))
	}
	if p.RefillRate != "" {
		if _, why := source.ParseDecimal(p.RefillRate); why != "" {
			return out, fmt.Sprintf("refill_rate %q: %s", source.Shorten(p.RefillRate), why)
		}
		number("refill_rate", p.RefillRate)
	}
	switch {
	case p.Window < 0 || p.Window == math.MinInt64:
		return out, fmt.Sprintf("window %s is negative", p.Window)
	case p.Window > 0:
		seconds := fmt.Sprintf("%d.%09d", p.Window/time.Second, p.Window%time.Second)
		number("window", strings.TrimRight(strings.TrimRight(seconds, "0"), "."))
	}
	if len(n.Fields) == 0 {
		return out, "no limit is stated; state limit or capacity"
	}
	d := &decoder{Reader: source.NewReader("", PlaceOf)}
	if out = d.params(n, "params"); len(d.Found) > 0 {
		return out, d.Found[0].Message
	}
	return out, ""
}
