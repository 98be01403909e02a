package rpc

import (
	"context"
	"log/slog"
	"slices"
	"strings"
)

// serversOwn are the beginnings of the lines of net/http that tell of something wrong with
// the server: a handler that panicked, and connections that cannot be accepted, which is how
// a process that is out of file descriptors shows.
var serversOwn = [...]string{"http: panic serving", "http2: panic serving", "http: Accept error"}

// serverLog is where a server of net/http writes what it has to say. Most of that is what
// clients bring about, and is worth a line only to those who look for it.
type serverLog struct{ log *slog.Logger }

// Write takes one line.
func (l serverLog) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	level := slog.LevelDebug
	if slices.ContainsFunc(serversOwn[:], func(begin string) bool { return strings.HasPrefix(text, begin) }) {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, text)
	return len(line), nil
}
