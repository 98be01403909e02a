package store

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogLibrary sends what go-redis says of its own, such as a failed dial in the
// background, to log at the level debug, instead of to the standard error in a
// format of its own. Debug, because whatever makes a call fail is in the call's
// error too, which its caller counts and tells.
//
// go-redis has one logger for the whole process, so the logger given last is the one
// for every Redis: give the process's own, without the attributes of one region. It
// is safe for concurrent use.
func LogLibrary(log *slog.Logger) { redis.SetLogger(libraryLog{log}) }

type libraryLog struct{ log *slog.Logger }

// Printf is go-redis's one way to log.
func (l libraryLog) Printf(ctx context.Context, format string, args ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "go-redis: "+fmt.Sprintf(format, args...))
	}
}
