// Package stack gives new goroutines the stacks that they are going to need.
package stack

// room is the room that Grow makes sure of, in bytes. A check takes between 4,000 and 8,000, and so does a call of the
// store.
const room = 5 << 10

// Grow gives the calling goroutine a stack of 8 KiB, unless it has one. A new goroutine has 2 KiB, and its stack doubles
// whenever it is full. Each time the runtime copies all frames that there are by then. Called early, Grow leaves one copy of
// few frames. It takes a comparison where the stack is large enough. Safe for concurrent use.
func Grow() { reserve(false) }

// reserve has a frame of more than room, for which the runtime makes the stack large enough when it begins. It writes to the
// frame only if it is told to, which nobody does.
//
//go:noinline
func reserve(write bool) {
	if write {
		var frame [room]byte
		keep(&frame)
	}
}

// keep has the compiler keep a variable on the stack.
//
//go:noinline
func keep(*[room]byte) {}
