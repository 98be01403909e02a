package rpc

import (
	"context"
	"log/slog"
	"slices"
	"strings"
)

// serversOwn are the beginnings of net/http's log lines about a fault of the server itself: a
// handler that panicked, or connections that cannot be accepted, which is the sign of a process
// without free file descriptors.
var serversOwn = [...]string{"http: panic serving", "http2: panic serving", "http: Accept error"}

// serverLog receives the log of a net/http server. Clients cause most of its lines, which therefore
// have the level debug.
type serverLog struct{ log *slog.Logger }

// Write logs one line.
func (l serverLog) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	level := slog.LevelDebug
	if slices.ContainsFunc(serversOwn[:], func(begin string) bool { return strings.HasPrefix(text, begin) }) {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, text)
	return len(line), nil
}
