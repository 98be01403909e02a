package checkwire

import (
	"encoding/binary"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// A tag has a field's number and the type of its value: a number of variable length, or a part
// whose length precedes it (a text, or another message).
const (
	asNumber = 0
	asPart   = 2
)

// scanner splits a message into fields. After unusual input odd is set, and the results are
// undefined from then on.
type scanner struct {
	data []byte
	odd  bool
	// lenient: a text that is not UTF-8 sets unclean instead of odd.
	lenient, unclean bool
}

// more reports whether there is another field.
func (s *scanner) more() bool { return len(s.data) > 0 && !s.odd }

// tag returns the tag of the next field if its number is at most 15 and it has the shortest
// encoding. Otherwise it returns 0, and the caller uses skip.
func (s *scanner) tag() byte {
	if tag := s.data[0]; tag < 0x80 {
		return tag
	}
	return 0
}

// drop consumes the tag that tag returned.
func (s *scanner) drop() { s.data = s.data[1:] }

// longTag consumes the given tag of two bytes, in its shortest encoding, if it is the next one.
func (s *scanner) longTag(tag uint16) bool {
	if len(s.data) < 2 || s.data[0] != byte(tag)|0x80 || s.data[1] != byte(tag>>7) {
		return false
	}
	s.data = s.data[2:]
	return true
}

// number consumes a varint.
func (s *scanner) number() uint64 {
	if len(s.data) > 0 && s.data[0] < 0x80 {
		n := uint64(s.data[0])
		s.data = s.data[1:]
		return n
	}
	n, size := binary.Uvarint(s.data)
	if size <= 0 {
		s.odd = true
		return 0
	}
	s.data = s.data[size:]
	return n
}

// bytes consumes a part with its length.
func (s *scanner) bytes() []byte {
	n := s.number()
	if s.odd || n > uint64(len(s.data)) {
		s.odd = true
		return nil
	}
	part := s.data[:n:n]
	s.data = s.data[n:]
	return part
}

// part consumes a part and returns a scanner of it with the same settings.
func (s *scanner) part() scanner {
	data := s.bytes()
	return scanner{data: data, odd: s.odd, lenient: s.lenient, unclean: s.unclean}
}

// text consumes a string, which must be valid UTF-8 unless the scanner is lenient. The result
// shares the message's memory.
func (s *scanner) text() string {
	part := s.bytes()
	if len(part) == 0 {
		return ""
	}
	text := unsafe.String(&part[0], len(part))
	if !utf8.ValidString(text) {
		s.unclean, s.odd = true, s.odd || !s.lenient
	}
	return text
}

// pair returns a name and a value if the message has only these, in this order, each shorter than
// 128 bytes and both ASCII. Nearly all attributes are like that, so this is the fast path.
func (s *scanner) pair() (name, value string, is bool) {
	d := s.data
	if len(d) < 4 || d[0] != entryName || !ascii(d) {
		return "", "", false
	}
	at := 2 + int(d[1])
	if len(d) < at+2 || d[at] != entryValue || len(d) != at+2+int(d[at+1]) {
		return "", "", false
	}
	text := unsafe.String(&d[0], len(d))
	return text[2:at], text[at+2:], true
}

// ascii reports whether no byte is above 127.
func ascii(b []byte) bool {
	var all uint64
	for ; len(b) >= 8; b = b[8:] {
		all |= binary.LittleEndian.Uint64(b)
	}
	for _, c := range b {
		all |= uint64(c)
	}
	return all&0x8080808080808080 == 0
}

// skip consumes a field that the caller does not expect. A field with an unknown number is ignored.
// A known number with another type than its own is odd, and so is a group.
func (s *scanner) skip(known protowire.Number) {
	number, kind, size := protowire.ConsumeTag(s.data)
	if size < 0 || number <= known || number > protowire.MaxValidNumber || kind == protowire.StartGroupType || kind == protowire.EndGroupType {
		s.odd = true
		return
	}
	value := protowire.ConsumeFieldValue(number, kind, s.data[size:])
	if value < 0 {
		s.odd = true
		return
	}
	s.data = s.data[size+value:]
}
