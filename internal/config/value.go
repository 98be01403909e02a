package config

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// value is the value of one flag from one source: one text, or a list of texts.
type value struct {
	text   string
	items  []string
	isList bool
}

func scalar(text string) value { return value{text: text} }

// set sets the flag's value and marks it as changed. It returns what is wrong with the value, or
// "".
func set(fs *pflag.FlagSet, f *pflag.Flag, v value) string {
	list, takesList := f.Value.(pflag.SliceValue)
	switch {
	case v.isList && !takesList:
		return fmt.Sprintf("takes one %s, not a list", kind(f))
	case takesList:
		if err := setList(list, v); err != nil {
			return err.Error()
		}
		f.Changed = true
		return ""
	}
	if err := fs.Set(f.Name, v.text); err != nil {
		return fmt.Sprintf("%q is not a valid %s%s", v.text, kind(f), hint(f))
	}
	return ""
}

// setList replaces the list. A text is comma-separated, as on the command line.
func setList(list pflag.SliceValue, v value) error {
	items := v.items
	if !v.isList && strings.TrimSpace(v.text) != "" {
		var err error
		if items, err = csv.NewReader(strings.NewReader(v.text)).Read(); err != nil {
			return fmt.Errorf("%q is not a comma-separated list", v.text)
		}
	}
	items = slices.Clone(items)
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return list.Replace(items)
}

// kind returns the flag's type in words.
func kind(f *pflag.Flag) string {
	switch t := f.Value.Type(); t {
	case "bool":
		return "true or false"
	case "int", "int32", "int64", "uint", "uint32", "uint64":
		return "whole number"
	default:
		return t
	}
}

func hint(f *pflag.Flag) string {
	if f.Value.Type() == "duration" {
		return `; write it with a unit, like "10s" or "500ms"`
	}
	return ""
}

// nearest returns the known name that is closest to the misspelt one, or "" if none is close.
func nearest(name string, known []string) string {
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, k := range known {
		if d := distance(name, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance returns the number of letters to insert, delete, replace or swap with the next one to get from a
// to b (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
