package state

import (
	"bytes"
	"testing"
)

// FuzzEntry: an entry of Raft's log that no coordinator wrote changes nothing, or is applied; it ends no node.
func FuzzEntry(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := DecodeCommand(data); err == nil {
			NewMachine().Apply(1, 1, data)
		}
	})
}

// FuzzSnapshot: a snapshot that no coordinator wrote is refused or restored.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = NewMachine().Restore(bytes.NewReader(data))
	})
}
