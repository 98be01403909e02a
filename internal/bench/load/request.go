package load

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the requests; the full messages are in limiter.proto and in Envoy's
// rls.proto and ratelimit.proto.
const (
	fieldAttributes  = 1 // CheckRequest, a map: name 1, value 2
	fieldRequests    = 1 // CheckBatchRequest, CheckStreamRequest
	fieldRequest     = 2 // StreamedCheck
	fieldDomain      = 1 // RateLimitRequest
	fieldDescriptors = 2
	fieldEntries     = 1 // RateLimitDescriptor: key 1, value 2
	fieldName        = 1
	fieldValue       = 2
)

// keyDigits is the width of a key's number in a request, so that all requests are
// equally long and only these digits differ.
const keyDigits = 8

// mold is the bytes of a call, in which the keys' numbers are then written.
type mold struct {
	bytes []byte
	at    []int // where the digits are, one for each check
	ids   []int // where the names of a stream's checks are
}

// The name of a stream's check is its call's number and its own within the call, in as many
// bytes always.
const (
	idBytes   = 4
	idsOfCall = 1024 // above maxBatch; so many calls as there may be workers have room
)

var emptyDigits = strings.Repeat("\x00", keyDigits)

// newMold encodes a call's message, without what the protocol puts around it.
func newMold(c *Config) *mold {
	var message []byte
	switch c.Protocol {
	case RLS:
		message = rateLimitRequest(c)
	case HTTP:
		message = getCheck(c)
	case JSON:
		message = jsonRequest(c)
	case Stream:
		message = streamRequest(c)
	default:
		message = checkRequest(c)
		if c.Batch > 1 {
			message = bytes.Repeat(nested(nil, fieldRequests, message), c.Batch)
		}
	}
	m := &mold{bytes: message}
	if c.Protocol == Stream {
		one := len(message) / c.Batch
		for i := range c.Batch {
			m.ids = append(m.ids, i*one+idAt(message[:one]))
		}
	}
	for from := 0; ; {
		i := bytes.Index(message[from:], []byte(emptyDigits))
		if i < 0 {
			break
		}
		m.at = append(m.at, from+i)
		from += i + keyDigits
	}
	return m
}

// pour appends the call with the next keys.
func (m *mold) pour(to []byte, k *keys) []byte {
	from := len(to)
	to = append(to, m.bytes...)
	for _, at := range m.at {
		digits := to[from+at : from+at+keyDigits]
		n := k.take()
		for i := keyDigits - 1; i >= 0; i-- {
			digits[i] = byte('0' + n%10)
			n /= 10
		}
	}
	return to
}

// name writes the names of the checks of a call that was poured.
func (m *mold) name(call []byte, number uint32) {
	for i, at := range m.ids {
		id := uint64(number)*idsOfCall + uint64(i)
		for j := range idBytes {
			more := byte(0x80)
			if j == idBytes-1 {
				more = 0
			}
			call[at+j] = byte(id>>(7*j))&0x7f | more
		}
	}
}

// prefix puts bytes before the message.
func (m *mold) prefix(p []byte) *mold {
	out := &mold{bytes: append(bytes.Clone(p), m.bytes...)}
	for _, at := range m.at {
		out.at = append(out.at, at+len(p))
	}
	for _, at := range m.ids {
		out.ids = append(out.ids, at+len(p))
	}
	return out
}

func nested(to []byte, field protowire.Number, message []byte) []byte {
	to = protowire.AppendTag(to, field, protowire.BytesType)
	return protowire.AppendBytes(to, message)
}

// pairs encodes attributes as messages of a name and a value.
func pairs(to []byte, field protowire.Number, attributes []string) []byte {
	for _, a := range attributes {
		name, value, _ := strings.Cut(a, "=")
		pair := nested(nil, fieldName, []byte(name))
		pair = nested(pair, fieldValue, []byte(strings.ReplaceAll(value, KeyPlaceholder, emptyDigits)))
		to = nested(to, field, pair)
	}
	return to
}

func checkRequest(c *Config) []byte { return pairs(nil, fieldAttributes, c.attributes()) }

// jsonRequest is the same in JSON.
func jsonRequest(c *Config) []byte {
	attributes := map[string]string{}
	for _, a := range c.attributes() {
		name, value, _ := strings.Cut(a, "=")
		attributes[name] = value
	}
	text, _ := json.Marshal(map[string]any{"attributes": attributes}) // of strings alone
	return bytes.ReplaceAll(text, []byte(KeyPlaceholder), []byte(emptyDigits))
}

// streamRequest has room for the names of its checks.
func streamRequest(c *Config) []byte {
	one := protowire.AppendTag(nil, fieldID, protowire.VarintType)
	one = append(one, make([]byte, idBytes)...)
	one = nested(one, fieldRequest, checkRequest(c))
	return bytes.Repeat(nested(nil, fieldRequests, one), c.Batch)
}

// idAt is where the name stands in a check of streamRequest.
func idAt(check []byte) int {
	_, _, head := protowire.ConsumeTag(check)
	_, size := protowire.ConsumeVarint(check[head:])
	return head + size + protowire.SizeTag(fieldID)
}

func rateLimitRequest(c *Config) []byte {
	var entries []string
	var out []byte
	for _, a := range c.attributes() {
		if domain, ok := strings.CutPrefix(a, "domain="); ok {
			out = nested(out, fieldDomain, []byte(domain))
			continue
		}
		entries = append(entries, a)
	}
	descriptor := pairs(nil, fieldEntries, entries)
	for range c.Descriptors {
		out = nested(out, fieldDescriptors, descriptor)
	}
	return out
}

// Paths of the calls.
const (
	checkMethod      = "/aliquot.v1.LimiterService/Check"
	checkBatchMethod = "/aliquot.v1.LimiterService/CheckBatch"
	streamMethod     = "/aliquot.v1.LimiterService/CheckStream"
	rlsMethod        = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
)

func (c *Config) method() string {
	switch {
	case c.Protocol == RLS:
		return rlsMethod
	case c.Protocol == Stream:
		return streamMethod
	case c.Batch > 1:
		return checkBatchMethod
	}
	return checkMethod
}

// getCheck is what a proxy asks about one request.
func getCheck(c *Config) []byte {
	out := []byte("GET /check HTTP/1.1\r\nHost: " + hostOf(c.Address) + "\r\n")
	for _, a := range c.attributes() {
		name, value, _ := strings.Cut(a, "=")
		out = fmt.Appendf(out, "%s: %s\r\n", name, strings.ReplaceAll(value, KeyPlaceholder, emptyDigits))
	}
	return append(out, "\r\n"...)
}

// overHTTP1 is the whole call as it goes over a connection of HTTP/1.1.
func overHTTP1(c *Config) *mold {
	m := newMold(c)
	kind := "application/proto"
	switch c.Protocol {
	case HTTP:
		return m
	case JSON:
		kind = "application/json"
	}
	return m.prefix([]byte("POST " + c.method() + " HTTP/1.1\r\nHost: " + hostOf(c.Address) +
		"\r\nContent-Type: " + kind + "\r\nConnect-Protocol-Version: 1\r\nContent-Length: " +
		strconv.Itoa(len(m.bytes)) + "\r\n\r\n"))
}

// overGRPC is the message as it stands in gRPC's stream.
func overGRPC(c *Config) *mold {
	m := newMold(c)
	return m.prefix(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m.bytes))))
}
