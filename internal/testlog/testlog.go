// Package testlog keeps what a program logs for its test.
package testlog

import (
	"bytes"
	"sync"
)

// Buffer is a writer whose text can be read while a program writes to it. The zero value is empty. It is safe for
// concurrent use.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the text. It implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
