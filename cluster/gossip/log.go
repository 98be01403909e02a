package gossip

import (
	"context"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"time"
)

// lineWriter turns memberlist's log lines, "[WARN] memberlist: text from=address", into slog records. It logs each
// kind of warning, for each host, at the rate of allow: a stranger that connects every second must not fill the
// log.
type lineWriter struct {
	log   *slog.Logger
	allow func(key string, now time.Time) bool
}

var (
	gossipLine = regexp.MustCompile(`^(?:\[([A-Z]+)\] )?(?:memberlist: )?(.*)$`)
	gossipFrom = regexp.MustCompile(`from=(\S+)`)
	anyNumber  = regexp.MustCompile(`[0-9]+`)
)

// Write implements io.Writer for one line.
func (w *lineWriter) Write(p []byte) (int, error) {
	m := gossipLine.FindStringSubmatch(strings.TrimSpace(string(p)))
	if m == nil {
		return len(p), nil
	}
	level, text := gossipLevel(m[1]), m[2]
	from := ""
	if f := gossipFrom.FindStringSubmatch(text); f != nil {
		from = f[1]
	}
	if level >= slog.LevelWarn && !w.warn(&text, &level, from) {
		level = slog.LevelDebug
	}
	if from != "" {
		w.log.Log(context.Background(), level, text, "from", from)
	} else {
		w.log.Log(context.Background(), level, text)
	}
	return len(p), nil
}

// warn explains a refusal in our own terms, and reports whether the line may be logged as a warning.
func (w *lineWriter) warn(text *string, level *slog.Level, from string) bool {
	host, _, err := net.SplitHostPort(from)
	if err != nil {
		host = from
	}
	key := anyNumber.ReplaceAllString(*text, "#")
	if explained, kind := explainRefusal(*text); kind != "" {
		*text, *level, key = explained, slog.LevelWarn, kind
	}
	return w.allow("gossip "+key+" "+host, time.Now())
}

// explainRefusal recognises the lines in which memberlist refuses a stranger; kind is empty for any other line.
func explainRefusal(text string) (explained, kind string) {
	lower := strings.ToLower(text)
	switch {
	case strings.Contains(lower, "unacceptable label"):
		return "gossip refused: the caller uses another cluster label (" + text + ")", "label"
	case strings.Contains(lower, "decrypt"), strings.Contains(lower, "not encrypted"),
		strings.Contains(lower, "encryption is configured"), strings.Contains(lower, "encryption is not configured"):
		return "gossip refused: the caller uses another gossip key, or none (" + text + ")", "key"
	case strings.Contains(lower, errOtherCluster.Error()):
		return "gossip refused: " + text, "cluster"
	}
	return "", ""
}

func gossipLevel(name string) slog.Level {
	switch name {
	case "DEBUG":
		return slog.LevelDebug
	case "INFO":
		return slog.LevelInfo
	default:
		return slog.LevelWarn // memberlist's errors are a peer's or the network's, not ours
	}
}
