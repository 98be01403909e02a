// Package config sets a daemon's flags from three places: the command line, which has precedence,
// then the environment, then a YAML file. The flags are the only list of settings: their names,
// types and defaults serve all three.
package config

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// EnvPrefix begins the name of every environment variable that sets a flag: ALIQUOT_NODE_ID sets
// --node-id.
const EnvPrefix = "ALIQUOT_"

// notSettings are flags that make the program do something else. A file cannot contain them.
var notSettings = []string{"config", "help", "version"}

// IsSetting reports whether a flag can be set in a file or in the environment. "config", "help" and
// "version" cannot; the variable of "config" only names the file.
func IsSetting(flag string) bool { return !slices.Contains(notSettings, flag) }

// File returns the configuration file to read: the value of the flag "config", or of ALIQUOT_CONFIG
// if the flag was not given. Empty means none.
func File(fs *pflag.FlagSet, environ []string) string {
	if f := fs.Lookup("config"); f != nil && f.Changed {
		return f.Value.String()
	}
	value, _ := lookupEnv(environ, "config")
	return value
}

// Load sets every flag that the command line, which must be parsed already, did not set. It takes
// the value from the environment (in the form of os.Environ), or else from the YAML file, whose
// keys are the names of the flags with '-' or '_'. file may be empty.
//
// An unknown or wrong field is an error with file:line:column, even if another source overrides it,
// and so is a wrong value in the environment, and a variable that CheckEnvironment refuses. Locate
// finds where a value came from that turns out to be wrong later. After an error the flags are in
// an undefined state.
func Load(fs *pflag.FlagSet, file string, environ []string) error {
	if err := CheckEnvironment(environ, Variables(fs)...); err != nil {
		return err
	}
	given := commandLine(fs)
	if file != "" {
		if err := loadFile(fs, file); err != nil {
			return nameVariable(err, fs, environ)
		}
	}
	if err := loadEnv(fs, environ, given); err != nil {
		return err
	}
	for _, g := range given {
		if err := g.restore(); err != nil {
			return err
		}
	}
	return nil
}

// nameVariable adds to an error about the file that a variable names it: the same variable names another kind of
// file to aliquot.
func nameVariable(err error, fs *pflag.FlagSet, environ []string) error {
	f := fs.Lookup("config")
	if _, there := lookupEnv(environ, "config"); !there || f != nil && f.Changed {
		return err
	}
	return fmt.Errorf("%w\nenvironment %s names the file, which must have the settings of this daemon; the contexts of aliquot are another file", err, Variable("config"))
}

// Variables returns the names of the flags of fs that a variable of the environment sets.
func Variables(fs *pflag.FlagSet) (names []string) {
	fs.VisitAll(func(f *pflag.Flag) {
		if IsSetting(f.Name) || f.Name == "config" {
			names = append(names, f.Name)
		}
	})
	return names
}

// kept is a flag's value from the command line.
type kept struct {
	flag  *pflag.Flag
	value string
	slice []string // the values of a list
}

func commandLine(fs *pflag.FlagSet) []kept {
	var out []kept
	fs.Visit(func(f *pflag.Flag) {
		k := kept{flag: f, value: f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			k.slice = slices.Clone(list.GetSlice())
		}
		out = append(out, k)
	})
	return out
}

func (k kept) restore() error {
	setSource(k.flag, "")
	if list, ok := k.flag.Value.(pflag.SliceValue); ok {
		return list.Replace(k.slice)
	}
	return k.flag.Value.Set(k.value)
}

func loadEnv(fs *pflag.FlagSet, environ []string, given []kept) error {
	var err error
	fs.VisitAll(func(f *pflag.Flag) {
		value, found := lookupEnv(environ, f.Name)
		onLine := slices.ContainsFunc(given, func(k kept) bool { return k.flag == f })
		if err != nil || !found || onLine || !IsSetting(f.Name) {
			return
		}
		if wrong := set(fs, f, scalar(value)); wrong != "" {
			err = fmt.Errorf("environment %s: %s", Variable(f.Name), wrong)
		}
		setSource(f, "environment "+Variable(f.Name))
	})
	return err
}

// Variable returns the name of the environment variable that sets a flag.
func Variable(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// lookupEnv returns a flag's value in the environment.
func lookupEnv(environ []string, flag string) (string, bool) { return lookup(environ, Variable(flag)) }

// Getenv returns the value of a variable in environ, whose entries are NAME=VALUE; empty if it is
// not there.
func Getenv(environ []string, name string) string {
	value, _ := lookup(environ, name)
	return value
}

// lookup returns the last of several entries with the same name, as a shell does.
func lookup(environ []string, name string) (string, bool) {
	for _, e := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// byteOrderMark is at the beginning of files that some editors write.
const byteOrderMark = "\ufeff"

func readFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", file, err)
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("--config %s: %d bytes; at most %d are read, is this the right file?", file, info.Size(), maxFileBytes)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", file, err)
	}
	return bytes.TrimPrefix(data, []byte(byteOrderMark)), nil
}
