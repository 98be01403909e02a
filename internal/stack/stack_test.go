package stack

import (
	"testing"
	"unsafe"
)

// TestGrow: a new goroutine that has called Grow goes on to deep calls without a move of its stack.
func TestGrow(t *testing.T) {
	moved := make(chan bool)
	go func() {
		Grow()
		var here byte
		before := uintptr(unsafe.Pointer(&here))
		deep(4) // KiB
		moved <- uintptr(unsafe.Pointer(&here)) != before
	}()
	if <-moved {
		t.Error("the stack was moved although it had been grown")
	}
}

// deep takes somewhat more than n KiB of stack.
//
//go:noinline
func deep(n int) (sum int) {
	var frame [1 << 10]byte
	frame[n] = byte(n)
	if n > 1 {
		sum = deep(n - 1)
	}
	for _, b := range frame[:] {
		sum += int(b)
	}
	return sum
}
