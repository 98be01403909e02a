package config

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
)

// Release is the version of Aliquot that these sources are, or will be, as CHANGELOG.md names it.
const Release = "0.1.0"

// Version returns the release and, where the binary was built in a clone, the first 12 digits of
// its commit: "0.1.0+444f7d2ab01c", with ".modified" behind it if sources had changed since. It is
// one word without spaces, as semantic versioning writes it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Release
	}
	return version(info.Settings)
}

func version(settings []debug.BuildSetting) string {
	revision, modified := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ".modified"
		}
	}
	if revision == "" {
		return Release
	}
	return Release + "+" + revision + modified
}

// NewLogger writes to w at the level "debug", "info", "warn" or "error", as "text"
// or "json".
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: use text or json", format)
}
