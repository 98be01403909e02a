package config

import (
	"errors"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// source is the annotation of a flag that says which line of a file, or which variable, has set it.
const source = "aliquot.source"

// setSource remembers where a flag was set. An empty place means the command line.
func setSource(f *pflag.Flag, place string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[source] = []string{place}
}

// leading are the flags that a message about settings begins with, or that it names before others.
var leading = regexp.MustCompile(`^--[a-z-]+((, | and )--[a-z-]+)*`)

// Locate returns err with the place of each wrong setting before its line: file:line:column or the name of a
// variable. A line has a place if it begins with a flag, --log-level "loud": ..., that a file or the
// environment has set. err may be nil.
func Locate(fs *pflag.FlagSet, err error) error {
	if err == nil {
		return nil
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		if place := placeOf(fs, line); place != "" {
			lines[i] = place + ": " + line
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}

// placeOf returns the place of the first flag at the beginning of a line that has one.
func placeOf(fs *pflag.FlagSet, line string) string {
	for name := range strings.FieldsFuncSeq(leading.FindString(line), func(r rune) bool { return r == ' ' || r == ',' }) {
		name, isFlag := strings.CutPrefix(name, "--")
		if !isFlag {
			continue
		}
		if f := fs.Lookup(name); f != nil && len(f.Annotations[source]) == 1 && f.Annotations[source][0] != "" {
			return f.Annotations[source][0]
		}
	}
	return ""
}
