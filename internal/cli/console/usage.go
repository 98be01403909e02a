package console

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aliquot/rules/source"
)

// parsing is what Go's own functions say of a text that they cannot read.
var parsing = regexp.MustCompile(`(?:strconv\.(\w+): parsing |time: (invalid duration|missing unit in duration|unknown unit .* in duration) )"[^"]*"(: value out of range)?.*$`)

// unknownShort is what pflag says of a flag of one letter that does not exist.
var unknownShort = regexp.MustCompile(`^unknown shorthand flag: '(.)' in -`)

// FlagError says of a wrong flag what it takes, or which one was meant.
func FlagError(c *cobra.Command, err error) error {
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "unknown flag: --"); unknown {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if meant := source.Nearest(name, names); meant != "" {
			return fmt.Errorf("there is no flag --%s; did you mean --%s?", name, meant)
		}
		return fmt.Errorf("there is no flag --%s", name)
	}
	if m := unknownShort.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("there is no flag -%s; write -- before arguments that begin with a hyphen", m[1])
	}
	m := parsing.FindStringSubmatchIndex(text)
	if m == nil {
		return err
	}
	what := "a duration such as 5s"
	if m[2] >= 0 {
		what = takes(text[m[2]:m[3]])
	}
	if m[6] >= 0 {
		what += " that is not so large"
	}
	return errors.New(text[:m[0]] + "give " + what)
}

// takes is what a function of strconv reads.
func takes(function string) string {
	switch function {
	case "ParseFloat":
		return "a number"
	case "ParseBool":
		return "true or false"
	}
	return "a whole number"
}
