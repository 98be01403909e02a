package storeguard

// stackRoom is the room that growStack makes sure of, in bytes: most calls of the store take between 4,000 and 8,000.
const stackRoom = 5 << 10

// growStack gives a new goroutine the stack that a call of the store takes. Otherwise its stack doubles twice or more on the
// way, and each time the runtime copies all frames that there are by then once more.
//
//go:noinline
func growStack() {
	var room [stackRoom]byte
	touch(&room)
}

// touch has the compiler keep a variable on the stack.
//
//go:noinline
func touch(*[stackRoom]byte) {}
