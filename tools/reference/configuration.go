package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"aliquot/coordinator"
	"aliquot/internal/config"
	"aliquot/regional"
)

// daemons are both of them, with their flags.
func daemons() (sets []*pflag.FlagSet) {
	var process config.Process
	c, r := coordinator.DefaultConfig(), regional.DefaultConfig()
	for _, d := range []struct {
		name string
		bind func(*pflag.FlagSet)
	}{{"coordinator", c.Bind}, {"regional", r.Bind}} {
		fs := pflag.NewFlagSet(d.name, pflag.ContinueOnError)
		fs.SortFlags = false
		d.bind(fs)
		process.Bind(fs)
		sets = append(sets, fs)
	}
	return sets
}

// outside are variables of the environment that are no flags of a daemon.
var outside = [][]string{
	{"`GOGC`", "both daemons", "Sets the pace of Go's garbage collector. Without it the daemons choose their own."},
	{"`STATE_DIRECTORY`", "regional", "Is the first folder for the default state file. systemd sets it from `StateDirectory=`."},
	{"`XDG_STATE_HOME`", "regional", "Has the second folder for the default state file: `aliquot` in it."},
	{"`HOME`", "regional", "Has the third folder for the default state file: `.local/state/aliquot` in it."},
	{"`ALIQUOT_ADDR`", "`aliquot`", "The address to ask, in place of `--addr`."},
	{"`ALIQUOT_REGION_ADDR`", "`aliquot`", "The address to ask for `check`, `explain`, `reserve` and `settle`. It has precedence over `ALIQUOT_ADDR`."},
	{"`ALIQUOT_CONTEXT`", "`aliquot`", "The installation to ask, in place of `--context`."},
	{"`ALIQUOT_CONFIG`", "`aliquot`", "The file that keeps the contexts."},
	{"`XDG_CONFIG_HOME`", "`aliquot`", "The folder in which `aliquot/contexts.yaml` keeps the contexts otherwise. The default is `~/.config`."},
	{"`USER`", "`aliquot`", "The author of a change without `--author`, with the machine's name."},
}

// configurationText lists the flags of both daemons.
func configurationText(string) (string, error) {
	var b strings.Builder
	b.WriteString(wrapped(fmt.Sprintf("Flags win over the environment, and the environment wins over the file of `--config`. The file is YAML, with the name of a flag as the key: "+
		"`log-level: debug`. An underscore may stand for a hyphen. In the environment `%sLOG_LEVEL` sets `--log-level`. A list is written `a,b,c`; in the file it may be a YAML list too. "+
		"A name in the file that is unknown is an error, and so is a variable that is almost one of these; the message suggests the one that was meant. What is wrong in a file is reported with its line and column.", config.EnvPrefix)) + "\n\n")
	for _, fs := range daemons() {
		b.WriteString("## " + fs.Name() + "\n\n")
		var rows [][]string
		fs.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			unit, usage := pflag.UnquoteUsage(f)
			variable, key := config.Variable(f.Name), code(f.Name)
			if !config.IsSetting(f.Name) {
				key = ""
				if f.Name != "config" {
					variable = ""
				}
			}
			rows = append(rows, []string{code("--" + f.Name), code(variable), key, value(f, unit), code(standard(f)), sentence(usage)})
		})
		b.WriteString(table([]string{"flag", "environment", "file", "value", "default", "meaning"}, rows))
	}
	b.WriteString("## Other variables of the environment\n\n")
	b.WriteString(table([]string{"variable", "read by", "meaning"}, outside))
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// value says what a flag takes.
func value(f *pflag.Flag, unit string) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "stringSlice":
		return "list of " + strings.TrimSuffix(unit, "s") + "s"
	case "int":
		if slices.Contains([]string{"number", "factor"}, unit) {
			return unit
		}
		return "number of " + unit
	}
	return unit
}

// standard is a flag's default; empty if it has none.
func standard(f *pflag.Flag) string {
	switch f.DefValue {
	case "[]", "false":
		return ""
	}
	return strings.Trim(f.DefValue, "[]")
}
