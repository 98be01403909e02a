// Package snapshot reads and writes the file of `aliquot snapshot save`.
package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// A file is a header, then one aliquot.v1.Snapshot:
//
//	bytes 0-7    magic, whose last byte is the format
//	bytes 8-15   length of the message in bytes, big endian
//	bytes 16-47  SHA-256 of the message
const (
	magic      = "aqsnaps\x01"
	headerSize = len(magic) + 8 + sha256.Size
)

// MaxBytes is the size of the largest file: the largest rules file (4 MiB), and as many entries as there may
// be with texts of 1 KiB each.
const MaxBytes = 16 << 20

// MaxParts bounds the repeated and nested values of a file: ten times as many entries as there may be. An empty one takes
// two bytes in the file and a hundred in memory.
const MaxParts = 100_000

// PartBytes is how many bytes of a file one message of a stream has.
const PartBytes = 64 << 10

// ErrDamaged is wrapped by the errors of Decode.
var ErrDamaged = errors.New("this is not a complete snapshot file")

// Encode returns the file of a snapshot. It fails if the file would be larger than MaxBytes.
func Encode(s *aliquotv1.Snapshot) ([]byte, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	if len(body) > MaxBytes-headerSize {
		return nil, fmt.Errorf("a snapshot of %d bytes, at most %d", len(body), MaxBytes-headerSize)
	}
	sum := sha256.Sum256(body)
	file := binary.BigEndian.AppendUint64([]byte(magic), uint64(len(body)))
	return append(append(file, sum[:]...), body...), nil
}

// Decode returns the snapshot of a whole file, whose length and checksum it verifies.
func Decode(file []byte) (*aliquotv1.Snapshot, error) {
	switch {
	case len(file) < len(magic) || !bytes.Equal(file[:len(magic)-1], []byte(magic[:len(magic)-1])):
		return nil, fmt.Errorf("%w: it does not begin as one; give a file that `aliquot snapshot save` wrote", ErrDamaged)
	case file[len(magic)-1] != magic[len(magic)-1]:
		return nil, fmt.Errorf("%w: its format is %d, and this version reads %d", ErrDamaged, file[len(magic)-1], magic[len(magic)-1])
	case len(file) < headerSize:
		return nil, fmt.Errorf("%w: it ends in its header", ErrDamaged)
	}
	body := file[headerSize:]
	if length := binary.BigEndian.Uint64(file[len(magic):]); length != uint64(len(body)) {
		return nil, fmt.Errorf("%w: it announces %d bytes and has %d", ErrDamaged, length, len(body))
	}
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], file[headerSize-sha256.Size:headerSize]) {
		return nil, fmt.Errorf("%w: its checksum does not match, so its bytes were altered; use another backup", ErrDamaged)
	}
	s := &aliquotv1.Snapshot{}
	if err := rpc.CheckParts(body, s, MaxParts); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := proto.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if s.GetClusterId() == "" {
		return nil, fmt.Errorf("%w: it names no cluster", ErrDamaged)
	}
	return s, nil
}
