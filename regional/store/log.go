package store

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogLibrary sends the messages that go-redis logs by itself, such as a failed dial in the
// background, to log at the level debug. Without it they go to the standard error in a format of
// their own. Debug is enough: a cause that makes a call fail is also in the call's error, which the
// caller counts and reports.
//
// go-redis has one logger for the whole process, so the latest log given serves every Redis. Give
// the process's own logger, without the attributes of one region. LogLibrary is safe for concurrent
// use.
func LogLibrary(log *slog.Logger) { redis.SetLogger(libraryLog{log}) }

// libraryLog is a logger in the form that go-redis calls.
type libraryLog struct{ log *slog.Logger }

// Printf logs one message. go-redis logs by this method only.
func (l libraryLog) Printf(ctx context.Context, format string, args ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "go-redis: "+fmt.Sprintf(format, args...))
	}
}
