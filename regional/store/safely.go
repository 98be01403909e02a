package store

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// safely runs do on a goroutine whose panics no caller recovers, and returns its error. It logs a
// panic with its stack and returns it as an error: no answer of a server may end the process.
func safely(log *slog.Logger, what string, do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.Error("a call of the store panicked; this is a bug, please report it with this line", "call", what, "panic", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("store: %s: a bug: %v", what, cause)
		}
	}()
	return do()
}
