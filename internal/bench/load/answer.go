package load

import (
	"bytes"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the answers; 1 is a varint in CheckResponse (allowed) and in a
// descriptor's status (its code), a message in CheckBatchResult.
const (
	fieldResults  = 1 // CheckBatchResponse
	fieldResponse = 1 // CheckBatchResult
	fieldAllowed  = 1 // CheckResponse
	fieldMode     = 7
	fieldStatuses = 2 // RateLimitResponse
	fieldAnswers  = 1 // CheckStreamResponse
	fieldID       = 1 // StreamedAnswer, and StreamedCheck
	fieldStreamed = 2 // StreamedAnswer
	fieldCode     = 1 // DescriptorStatus
	codeOK        = 1
)

// modes are what may have decided, as CheckResponse says.
var modes = [...]string{
	"store", "local", "emergency", "fail_open", "fail_closed", "allow_list", "block_list", "no_rule", "no_rules_yet", "other",
}

// tally counts answers.
type tally struct {
	calls, allowed, denied int64
	modes                  [len(modes)]int64
}

func (t *tally) add(o *tally) {
	t.calls += o.calls
	t.allowed += o.allowed
	t.denied += o.denied
	for i, n := range o.modes {
		t.modes[i] += n
	}
}

func (t *tally) checks() int64 { return t.allowed + t.denied }

func (t *tally) decided(allowed bool) {
	if allowed {
		t.allowed++
	} else {
		t.denied++
	}
}

var (
	errAnswer  = errors.New("malformed answer")
	errMissing = errors.New("not every check was answered")
)

// scan counts the decisions in an answer's message. It is an error if there are not as
// many as were asked for.
func (t *tally) scan(c *Config, message []byte) error {
	before := t.checks()
	var err error
	switch {
	case c.Protocol == JSON:
		err = t.text(message)
	case c.Protocol == RLS:
		err = each(message, func(n protowire.Number, v []byte, _ uint64) error {
			if n == fieldStatuses {
				return t.status(v)
			}
			return nil
		})
	case c.Protocol == Stream:
		err = each(message, func(n protowire.Number, v []byte, _ uint64) error {
			if n == fieldAnswers {
				return each(v, t.streamed)
			}
			return nil
		})
	case c.Batch > 1:
		err = each(message, func(n protowire.Number, v []byte, _ uint64) error {
			if n == fieldResults {
				return each(v, t.result)
			}
			return nil
		})
	default:
		err = t.response(message)
	}
	if err == nil && t.checks()-before != int64(c.checksPerCall()) {
		err = errMissing
	}
	t.calls++
	return err
}

func (t *tally) result(n protowire.Number, v []byte, _ uint64) error {
	if n == fieldResponse {
		return t.response(v)
	}
	return nil
}

func (t *tally) streamed(n protowire.Number, v []byte, _ uint64) error {
	if n == fieldStreamed {
		return t.response(v)
	}
	return nil
}

// firstID is the name of the request that a stream's message answers first.
func firstID(message []byte) (id uint64, err error) {
	_, answer, _, size := field(message)
	if size < 0 {
		return 0, errAnswer
	}
	err = each(answer, func(n protowire.Number, _ []byte, v uint64) error {
		if n == fieldID {
			id = v
		}
		return nil
	})
	return id, err
}

func (t *tally) status(message []byte) error {
	var code uint64
	err := each(message, func(n protowire.Number, _ []byte, v uint64) error {
		if n == fieldCode {
			code = v
		}
		return nil
	})
	t.decided(code == codeOK)
	return err
}

// response counts one CheckResponse. Its fields come in the order of their numbers, and
// what follows the mode, the limits above all, is not looked at.
func (t *tally) response(message []byte) error {
	allowed := false
	for len(message) > 0 {
		n, v, number, size := field(message)
		if size < 0 {
			return errAnswer
		}
		if n == fieldAllowed {
			allowed = number != 0
		}
		if n == fieldMode {
			t.modes[modeIndex(v)]++
		}
		if n >= fieldMode {
			break
		}
		message = message[size:]
	}
	t.decided(allowed)
	return nil
}

// text counts one CheckResponse in JSON. Its own fields stand before those of its limits.
func (t *tally) text(message []byte) error {
	allowed, mode := jsonField(message, `"allowed":`), jsonField(message, `"mode":`)
	if allowed == nil || mode == nil {
		return errAnswer
	}
	t.modes[modeIndex(bytes.Trim(mode, `"`))]++
	t.decided(string(allowed) == "true")
	return nil
}

// jsonField is the first value of a name, a word without commas; nil if there is none.
func jsonField(message []byte, name string) []byte {
	_, rest, _ := bytes.Cut(message, []byte(name))
	end := bytes.IndexAny(rest, ",}")
	if end < 0 {
		return nil
	}
	return bytes.TrimSpace(rest[:end])
}

func modeIndex(mode []byte) int {
	for i, name := range modes {
		if string(mode) == name {
			return i
		}
	}
	return len(modes) - 1
}

// each calls visit with every field of a message: its bytes, or its number if it is a
// varint.
func each(message []byte, visit func(n protowire.Number, v []byte, number uint64) error) error {
	for len(message) > 0 {
		n, v, number, size := field(message)
		if size < 0 {
			return errAnswer
		}
		if err := visit(n, v, number); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}

// field reads a message's first field; its size is negative if it is malformed.
func field(message []byte) (n protowire.Number, v []byte, number uint64, size int) {
	if len(message) >= 2 && message[0] < 0x80 && message[1] < 0x80 {
		if n, v, number, size = shortField(message); size > 0 {
			return n, v, number, size
		}
	}
	n, kind, head := protowire.ConsumeTag(message)
	if head < 0 {
		return 0, nil, 0, head
	}
	var body int
	switch kind {
	case protowire.BytesType:
		v, body = protowire.ConsumeBytes(message[head:])
	case protowire.VarintType:
		number, body = protowire.ConsumeVarint(message[head:])
	default:
		body = protowire.ConsumeFieldValue(n, kind, message[head:])
	}
	if body < 0 {
		return 0, nil, 0, body
	}
	return n, v, number, head + body
}

// shortField is field of one whose tag, and whose number or length, take a byte each, as
// most do: an answer has a dozen of them for each check. Its size is 0 of all others.
func shortField(message []byte) (n protowire.Number, v []byte, number uint64, size int) {
	n, kind := protowire.DecodeTag(uint64(message[0]))
	switch second := int(message[1]); {
	case n < 1:
	case kind == protowire.VarintType:
		return n, nil, uint64(second), 2
	case kind == protowire.BytesType && len(message) >= 2+second:
		return n, message[2 : 2+second], 0, 2 + second
	}
	return 0, nil, 0, 0
}
