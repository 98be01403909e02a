package config

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
)

// Release is the version of Aliquot that these sources are or will be, as in CHANGELOG.md.
const Release = "0.1.0"

// Version returns the release. If the binary was built in a clone, the first 12 digits of the
// commit follow: "0.1.0+444f7d2ab01c", and ".modified" if sources had changed since. It is one word
// without spaces, in the form of semantic versioning.
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

// NewLogger returns a logger that writes to w. level is "debug", "info", "warn" or "error", and
// format is "text" or "json". Other values are errors that name the flag.
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
