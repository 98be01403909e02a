package lua

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The numbers of a take are packed in both directions, as take.lua describes. A text for each
// number would take Redis longer than the decision does. Each is a whole number of at most 2^53, so
// a double holds it exactly.

// packedBytes is the size of a packed number.
const packedBytes = 8

// pack appends numbers to a text.
func pack(text []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(float64(n)))
	}
	return text
}

// packed is a text of numbers that are read in order.
type packed string

// unpack returns the clock and the packed numbers of a reply. The reply must have want numbers. The
// error for a refusal is an *EpochError or a *LateError.
func unpack(reply []any, want int) (now int64, numbers packed, err error) {
	if err := refusal(reply); err != nil {
		return 0, "", err
	}
	if len(reply) != 2 {
		return 0, "", fmt.Errorf("reply of %d parts, want a clock and %d numbers", len(reply), want)
	}
	now, isClock := reply[0].(int64)
	text, isText := reply[1].(string)
	if !isClock || !isText || len(text) != want*packedBytes {
		return 0, "", fmt.Errorf("reply is a %T and a %T of %d bytes, want a clock and %d numbers", reply[0], reply[1], len(text), want)
	}
	return now, packed(text), nil
}

// next reads the next number.
func (p *packed) next() int64 {
	text := string(*p)
	*p = packed(text[packedBytes:])
	bits := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
	return int64(math.Float64frombits(bits))
}
