// Package msgpack looks at MessagePack before hashicorp's decoder reads it, which makes room for as much as a value
// announces: an extension of 4 GiB takes ten bytes to announce. It checks the structure and decodes nothing.
package msgpack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// MaxText bounds a text or binary: the largest entry of Raft's log, with room to spare.
	MaxText = 8 << 20
	// MaxParts bounds the parts of a value. A part of one byte can become a hundred in memory.
	MaxParts = 1 << 16
	// maxExtension bounds an extension. The messages have none but times, of at most 12 bytes.
	maxExtension = 16
	// maxDepth bounds how deep lists and maps lie in each other.
	maxDepth = 16
)

// ErrBeyond is wrapped by all errors of this package.
var ErrBeyond = errors.New("no message of a coordinator")

// Scanner follows one value as its bytes come. The zero value waits for the first byte.
type Scanner struct {
	open  []uint64 // parts that are still to come of the lists and maps that are open
	parts int
	head  []byte // of the part whose head is not whole yet
	skip  uint64 // bytes of a text, number or extension that are still to come
	begun bool
}

// Scan reads bytes of the value and returns how many belong to it, and whether it is whole. A Scanner whose value is
// whole waits for the next value.
func (s *Scanner) Scan(data []byte) (n int, whole bool, err error) {
	for n < len(data) || s.begun && len(s.head) == 0 && s.skip == 0 {
		switch {
		case s.skip > 0:
			step := min(s.skip, uint64(len(data)-n))
			n, s.skip = n+int(step), s.skip-step
		case s.begun && len(s.head) == 0:
			if s.ended() {
				*s = Scanner{open: s.open[:0], head: s.head[:0]}
				return n, true, nil
			}
		default:
			s.head = append(s.head, data[n])
			n++
			if err := s.look(); err != nil {
				return n, false, err
			}
		}
	}
	return n, false, nil
}

// ended counts a part that is whole, and with it the lists and maps of which it was the last part. It reports whether
// the value is whole.
func (s *Scanner) ended() bool {
	s.begun = false
	for len(s.open) > 0 {
		last := &s.open[len(s.open)-1]
		if *last--; *last > 0 {
			return false
		}
		s.open = s.open[:len(s.open)-1]
	}
	return true
}

// look looks at a head to which a byte was added. If it is whole, it makes room for what the head announces.
func (s *Scanner) look() error {
	kind := s.head[0]
	size := sizeOf(kind)
	if len(s.head) <= size {
		return nil
	}
	if s.parts++; s.parts > MaxParts {
		return fmt.Errorf("%w: more than %d parts", ErrBeyond, MaxParts)
	}
	announced := uint64(0)
	switch tail := s.head[1:]; size {
	case 1:
		announced = uint64(tail[0])
	case 2:
		announced = uint64(binary.BigEndian.Uint16(tail))
	case 4:
		announced = uint64(binary.BigEndian.Uint32(tail))
	}
	s.head, s.begun = s.head[:0], true
	switch {
	case kind <= 0x7f, kind >= 0xe0, kind == 0xc0, kind == 0xc2, kind == 0xc3: // small numbers, nil and booleans
		return nil
	case kind <= 0x8f:
		return s.list(2 * uint64(kind&0x0f))
	case kind <= 0x9f:
		return s.list(uint64(kind & 0x0f))
	case kind <= 0xbf:
		s.skip = uint64(kind & 0x1f)
	case kind == 0xc1:
		return fmt.Errorf("%w: the byte 0xc1", ErrBeyond)
	case kind <= 0xc6, kind >= 0xd9 && kind <= 0xdb:
		if announced > MaxText {
			return fmt.Errorf("%w: a text of %d bytes, at most %d", ErrBeyond, announced, MaxText)
		}
		s.skip = announced
	case kind <= 0xc9:
		if announced > maxExtension {
			return fmt.Errorf("%w: an extension of %d bytes, at most %d", ErrBeyond, announced, maxExtension)
		}
		s.skip = announced + 1
	case kind <= 0xcb: // floats
		s.skip = 4 << (kind - 0xca)
	case kind <= 0xcf:
		s.skip = 1 << (kind - 0xcc)
	case kind <= 0xd3:
		s.skip = 1 << (kind - 0xd0)
	case kind <= 0xd8: // extensions of 1 to 16 bytes
		s.skip = 1<<(kind-0xd4) + 1
	case kind <= 0xdd:
		return s.list(announced)
	default:
		return s.list(2 * announced)
	}
	return nil
}

// sizeOf returns how many bytes behind a kind announce a length.
func sizeOf(kind byte) int {
	switch kind {
	case 0xc4, 0xc7, 0xd9:
		return 1
	case 0xc5, 0xc8, 0xda, 0xdc, 0xde:
		return 2
	case 0xc6, 0xc9, 0xdb, 0xdd, 0xdf:
		return 4
	}
	return 0
}

// list opens a list or map of so many parts.
func (s *Scanner) list(parts uint64) error {
	switch {
	case parts == 0:
		return nil
	case parts > MaxParts:
		return fmt.Errorf("%w: a list of %d parts, at most %d", ErrBeyond, parts, MaxParts)
	case len(s.open) == maxDepth:
		return fmt.Errorf("%w: lists more than %d deep", ErrBeyond, maxDepth)
	}
	s.open, s.begun = append(s.open, parts), false
	return nil
}

// Check returns an error if the value with which data begins is beyond the bounds. A value that is cut is within them.
func Check(data []byte) error {
	_, _, err := new(Scanner).Scan(data)
	return err
}

// Reader returns a reader of in, which has one value after the other. It errs before it passes on the head of a part
// that is beyond the bounds.
func Reader(in io.Reader) io.Reader { return &reader{in: in} }

type reader struct {
	in   io.Reader
	scan Scanner
	err  error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.in.Read(p)
	for read := 0; read < n; {
		step, _, beyond := r.scan.Scan(p[read:n])
		if read += step; beyond != nil {
			r.err = beyond
			return 0, beyond
		}
	}
	return n, err
}
