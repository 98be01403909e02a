package cluster

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/hashicorp/go-hclog"
)

// levelTrace is below slog's lowest level: hclog has one level more.
const levelTrace = slog.LevelDebug - 4

// hclogBridge is an hclog.Logger that writes to a slog.Logger, with the same levels and pairs.
type hclogBridge struct {
	log     *slog.Logger
	name    string
	implied []any
	// allow bounds warnings and errors, by what they say of which peer; nil: they have no bound.
	allow func(key string, now time.Time) bool
}

var _ hclog.Logger = (*hclogBridge)(nil)

func newHclog(log *slog.Logger, name string) *hclogBridge {
	return &hclogBridge{log: log.With("component", name), name: name}
}

// bounded returns the logger with a bound on warnings and errors. Raft repeats them several times a
// second for each peer that is down.
func (b *hclogBridge) bounded(allow func(key string, now time.Time) bool) *hclogBridge {
	out := *b
	out.allow = allow
	return &out
}

func (b *hclogBridge) Log(level hclog.Level, msg string, args ...any) {
	b.emit(slogLevel(level), msg, args)
}
func (b *hclogBridge) Trace(msg string, args ...any) { b.emit(levelTrace, msg, args) }
func (b *hclogBridge) Debug(msg string, args ...any) { b.emit(slog.LevelDebug, msg, args) }
func (b *hclogBridge) Info(msg string, args ...any)  { b.emit(slog.LevelInfo, msg, args) }
func (b *hclogBridge) Warn(msg string, args ...any)  { b.emit(slog.LevelWarn, msg, args) }
func (b *hclogBridge) Error(msg string, args ...any) { b.emit(slog.LevelError, msg, args) }

func (b *hclogBridge) emit(level slog.Level, msg string, args []any) {
	if level == slog.LevelWarn && ordinary(msg, args) {
		level = slog.LevelInfo
	}
	if level >= slog.LevelWarn && b.allow != nil && !b.allow(b.name+" "+msg+" "+peerOf(args), time.Now()) {
		return
	}
	if b.log.Enabled(context.Background(), level) {
		b.log.Log(context.Background(), level, msg, formatted(args)...)
	}
}

// ordinary reports whether a warning of raft belongs to every start of a cluster: the first election, and the first
// entries to a node that has none.
func ordinary(msg string, args []any) bool {
	of := func(name string) string { return valueOf(name, args) }
	switch msg {
	case "heartbeat timeout reached, starting election":
		return of("last-leader-id") == ""
	case "failed to get previous log":
		return of("last-index") == "0"
	case "appendEntries rejected, sending older logs":
		return of("next") == "1"
	case "no known peers, aborting election":
		return true // a node waits for the others; readiness says so
	}
	return false
}

// valueOf returns the value of a name among the pairs of a line, or an empty text.
func valueOf(name string, args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == name {
			return fmt.Sprint(args[i+1])
		}
	}
	return ""
}

// peerOf returns the peer that a line of raft is about.
func peerOf(args []any) string {
	return valueOf("peer", args) + valueOf("target", args) + valueOf("server-id", args)
}

// formatted renders hclog.Fmt values, which slog would print as a slice.
func formatted(args []any) []any {
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	return args
}

func (b *hclogBridge) enabled(level slog.Level) bool {
	return b.log.Enabled(context.Background(), level)
}
func (b *hclogBridge) IsTrace() bool      { return b.enabled(levelTrace) }
func (b *hclogBridge) IsDebug() bool      { return b.enabled(slog.LevelDebug) }
func (b *hclogBridge) IsInfo() bool       { return b.enabled(slog.LevelInfo) }
func (b *hclogBridge) IsWarn() bool       { return b.enabled(slog.LevelWarn) }
func (b *hclogBridge) IsError() bool      { return b.enabled(slog.LevelError) }
func (b *hclogBridge) ImpliedArgs() []any { return b.implied }
func (b *hclogBridge) Name() string       { return b.name }

func (b *hclogBridge) With(args ...any) hclog.Logger {
	return &hclogBridge{log: b.log.With(args...), name: b.name, allow: b.allow, implied: append(b.implied[:len(b.implied):len(b.implied)], args...)}
}

func (b *hclogBridge) Named(name string) hclog.Logger {
	return b.ResetNamed(b.name + "." + name)
}

func (b *hclogBridge) ResetNamed(name string) hclog.Logger {
	return &hclogBridge{log: b.log.With("component", name), name: name, allow: b.allow, implied: b.implied}
}

// SetLevel does nothing: the level belongs to the slog handler.
func (b *hclogBridge) SetLevel(hclog.Level) {}

func (b *hclogBridge) GetLevel() hclog.Level {
	for _, level := range []hclog.Level{hclog.Trace, hclog.Debug, hclog.Info, hclog.Warn} {
		if b.enabled(slogLevel(level)) {
			return level
		}
	}
	return hclog.Error
}

func (b *hclogBridge) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(b.StandardWriter(opts), "", 0)
}

func (b *hclogBridge) StandardWriter(*hclog.StandardLoggerOptions) io.Writer {
	return slog.NewLogLogger(b.log.Handler(), slog.LevelInfo).Writer()
}

func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Trace:
		return levelTrace
	case hclog.Debug:
		return slog.LevelDebug
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
