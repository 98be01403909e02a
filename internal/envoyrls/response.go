package envoyrls

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Status is the decision about one check.
type Status struct {
	// Over: the descriptor is over its limit.
	Over bool
	// Name, Limit and Window describe the deciding limit: so many requests in so long. An empty
	// Name means that no limit decided, or that what is left of it is unknown; then they are not
	// sent.
	Name   string
	Limit  int64
	Window time.Duration
	// Remaining is how much the limit still admits.
	Remaining int64
	// Reset is the time until the limit is full again. It is sent in whole seconds, rounded up,
	// because Envoy cuts off fractions.
	Reset time.Duration
}

// Unlimited is the Remaining of a request that no limit applies to.
const Unlimited = math.MaxUint32

// Header is a header that the proxy adds to its client's response.
type Header struct{ Name, Value string }

// Response is a RateLimitResponse. The zero value is ready to be filled, and after Reset it is
// again. Not safe for concurrent use.
type Response struct {
	// Statuses are those of the descriptors, in their order.
	Statuses []Status
	// Headers go to the proxy's client, whether the request passes or not.
	Headers []Header
}

// Reset empties the response and keeps its memory.
func (r *Response) Reset() {
	clear(r.Statuses)
	clear(r.Headers)
	r.Statuses, r.Headers = r.Statuses[:0], r.Headers[:0]
}

// Over reports whether any descriptor is over its limit; then the request is.
func (r *Response) Over() bool {
	for i := range r.Statuses {
		if r.Statuses[i].Over {
			return true
		}
	}
	return false
}

// Values of RateLimitResponse.Code.
const (
	codeOK        = 1
	codeOverLimit = 2
)

// Numbers of the fields that are written.
const (
	responseCode     = 1
	responseStatuses = 2
	responseHeaders  = 3

	statusCode      = 1
	statusLimit     = 2
	statusRemaining = 3
	statusReset     = 4

	limitRequests   = 1
	limitUnit       = 2
	limitName       = 3
	limitMultiplier = 4

	headerKey   = 1
	headerValue = 2

	durationSeconds = 1
)

// Append appends the encoded message to b.
func (r *Response) Append(b []byte) []byte {
	b = appendNumber(b, responseCode, codeOf(r.Over()))
	for i := range r.Statuses {
		start := len(b) + 1
		b = r.Statuses[i].append(begin(b, responseStatuses))
		b = end(b, start)
	}
	for i := range r.Headers {
		start := len(b) + 1
		b = begin(b, responseHeaders)
		b = appendText(b, headerKey, r.Headers[i].Name)
		b = appendText(b, headerValue, r.Headers[i].Value)
		b = end(b, start)
	}
	return b
}

func codeOf(over bool) uint64 {
	if over {
		return codeOverLimit
	}
	return codeOK
}

func (s *Status) append(b []byte) []byte {
	b = appendNumber(b, statusCode, codeOf(s.Over))
	if s.Name != "" {
		start := len(b) + 1
		b = s.appendLimit(begin(b, statusLimit))
		b = end(b, start)
	}
	b = appendNumber(b, statusRemaining, uint64(saturated(s.Remaining)))
	if s.Name != "" {
		start := len(b) + 1
		b = appendNumber(begin(b, statusReset), durationSeconds, uint64(wholeSeconds(s.Reset)))
		b = end(b, start)
	}
	return b
}

func (s *Status) appendLimit(b []byte) []byte {
	unit, multiplier := unitOf(s.Window)
	b = appendNumber(b, limitRequests, uint64(saturated(s.Limit)))
	b = appendNumber(b, limitUnit, uint64(unit))
	b = appendText(b, limitName, s.Name)
	if multiplier > 1 {
		start := len(b) + 1
		b = appendNumber(begin(b, limitMultiplier), wrappedValue, uint64(multiplier))
		b = end(b, start)
	}
	return b
}

// saturated returns a count in the protocol's range.
func saturated(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// wholeSeconds rounds up to whole seconds. A negative time is 0.
func wholeSeconds(d time.Duration) int64 {
	s := int64(max(d, 0) / time.Second)
	if d > 0 && d%time.Second > 0 {
		s++
	}
	return s
}

// appendNumber writes a field. A zero is not written.
func appendNumber(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

func appendText(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
}

// begin writes the tag of a message and leaves one byte for its length.
func begin(b []byte, number protowire.Number) []byte {
	return append(protowire.AppendTag(b, number, protowire.BytesType), 0)
}

// end fills in the length of a message at place. If the length needs more bytes, the message is
// moved.
func end(b []byte, place int) []byte {
	size := len(b) - place - 1
	if size < 0x80 {
		b[place] = byte(size)
		return b
	}
	more := protowire.SizeVarint(uint64(size)) - 1
	for range more {
		b = append(b, 0)
	}
	copy(b[place+1+more:], b[place+1:len(b)-more])
	protowire.AppendVarint(b[:place], uint64(size))
	return b
}
