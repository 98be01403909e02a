package httpanswer

import (
	"strconv"
	"strings"
	"time"
)

// Fields returns the headers of the decision, for a caller that puts them elsewhere than into an
// Answer. now is the time of the decision.
func (d *Decision) Fields(now time.Time, h Headers) []Field {
	var s headerBuffer
	if h != None {
		s.text.Grow(usualText)
	}
	if h == Both || h == Legacy {
		d.legacy(&s, now)
	}
	if h == Both || h == IETF {
		d.ietf(&s)
	}
	d.act(&s)
	return s.fields()
}

// maxFields is the largest number of headers of a decision. An answer may have moreFields besides:
// its Content-Type and its Cache-Control. usualText is more bytes than the values usually have.
const (
	maxFields  = 9
	moreFields = 2
	usualText  = 192
)

// headerBuffer collects headers. It writes their values one behind the other, so that all values are one
// allocation.
type headerBuffer struct {
	text  strings.Builder
	names [maxFields]string
	ends  [maxFields]int
	n     int
}

// end ends the value of a header. The next value begins there.
func (s *headerBuffer) end(name string) {
	s.names[s.n], s.ends[s.n] = name, s.text.Len()
	s.n++
}

func (s *headerBuffer) number(n int64) {
	var buffer [20]byte // for any number
	s.text.Write(strconv.AppendInt(buffer[:0], n, 10))
}

func (s *headerBuffer) word(text string) { s.text.WriteString(text) }

func (s *headerBuffer) fields() []Field {
	if s.n == 0 {
		return nil
	}
	text, from := s.text.String(), 0
	out := make([]Field, s.n, s.n+moreFields)
	for i := range out {
		out[i] = Field{s.names[i], text[from:s.ends[i]]}
		from = s.ends[i]
	}
	return out
}

// legacy writes the headers of the legacy family.
func (d *Decision) legacy(s *headerBuffer, now time.Time) {
	if d.Rule != "" {
		s.number(d.Limit)
		s.end("X-RateLimit-Limit")
	}
	if d.degraded() {
		s.word("-1")
		s.end("X-RateLimit-Remaining")
		s.word("degraded")
		s.end("X-RateLimit-Policy")
	} else if d.Rule != "" {
		s.number(max(0, d.Remaining))
		s.end("X-RateLimit-Remaining")
	}
	if d.Rule != "" {
		s.number(d.resetAt(now))
		s.end("X-RateLimit-Reset")
	}
}

// concurrentRequests is the registered quota unit of requests that run at the same time.
const concurrentRequests = "concurrent-requests"

// quotaUnits maps what rules count to the registered quota units. The unit "" is the default,
// requests.
var quotaUnits = map[string]string{
	"": "", "requests": "", "concurrency": concurrentRequests, "content-bytes": "content-bytes", "content_bytes": "content-bytes",
}

// ietf writes the headers of the IETF family. It leaves out what remains while that is unknown. A
// limit in a unit without a registered name has none of these headers, because without the unit
// clients would count requests.
func (d *Decision) ietf(s *headerBuffer) {
	unit, registered := quotaUnits[d.Unit]
	if d.Rule == "" || !registered {
		return
	}
	s.quote(d.Rule)
	s.word(";q=")
	s.number(d.Limit)
	if d.Window > 0 {
		s.word(";w=")
		s.number(seconds(d.Window))
	}
	if unit != "" {
		s.word(";qu=")
		s.quote(unit)
	}
	s.end("RateLimit-Policy")
	if d.degraded() || d.Never {
		return
	}
	s.quote(d.Rule)
	s.word(";r=")
	s.number(max(0, d.Remaining))
	s.word(";t=")
	if d.Allowed {
		s.number(seconds(d.ResetAfter))
	} else {
		s.number(d.wait()) // a retry must not come earlier than Retry-After
	}
	s.end("RateLimit")
}

// act writes the headers that belong to neither family.
func (d *Decision) act(s *headerBuffer) {
	if d.DecisionID != "" {
		s.word(d.DecisionID)
		s.end("X-Decision-Id")
	}
	if d.Allowed {
		if d.Delay > 0 {
			s.word(strconv.FormatFloat(ceil(d.Delay, time.Millisecond).Seconds(), 'f', 3, 64))
			s.end("X-RateLimit-Delay")
		}
		return
	}
	s.word(d.problem())
	s.end("X-RateLimit-Problem")
	if !d.Never {
		s.number(d.wait())
		s.end("Retry-After")
	}
}

const upperHex = "0123456789ABCDEF"

// quote writes a String of RFC 9651, which has printable ASCII only. Other bytes of an id are
// percent-encoded.
func (s *headerBuffer) quote(text string) {
	s.text.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			s.text.WriteByte('\\')
			s.text.WriteByte(c)
		case c < ' ' || c > '~':
			s.text.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		default:
			s.text.WriteByte(c)
		}
	}
	s.text.WriteByte('"')
}
