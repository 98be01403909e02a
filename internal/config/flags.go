package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Process has the settings that every daemon has: its log, and the flags that print something and
// exit. The zero value has no flags.
type Process struct {
	// LogLevel and LogFormat are as NewLogger takes them.
	LogLevel, LogFormat string
	// Help and Version: print that and exit.
	Help, Version bool
}

// Bind adds the flags of p to fs, and "config", which names the file with settings.
func (p *Process) Bind(fs *pflag.FlagSet) {
	fs.String("config", "", "YAML `file` with these settings")
	fs.StringVar(&p.LogLevel, "log-level", "info", "lowest `level` of log lines: debug, info, warn or error")
	fs.StringVar(&p.LogFormat, "log-format", "text", "`format` of log lines: text or json")
	fs.BoolVarP(&p.Help, "help", "h", false, "print this help and exit")
	fs.BoolVar(&p.Version, "version", false, "print the version and exit")
}

// Parse reads a command line into fs. The error of an unknown flag says which one was meant.
func Parse(fs *pflag.FlagSet, args []string) error {
	err := fs.Parse(args)
	if err == nil {
		return nil
	}
	name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown || len(name) > maxNameShown {
		return err
	}
	var known []string
	fs.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if meant := nearest(name, known); meant != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, meant)
	}
	return err
}
