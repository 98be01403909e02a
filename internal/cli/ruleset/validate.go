package ruleset

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"aliquot/internal/cli/console"
	"aliquot/rules"
)

func newRulesValidate(g *console.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "validate FILE",
		Example: "  aliquot rules validate rules.yaml",
		Short:   "Check a rules file without a cluster (- reads standard input)",
		Long: "Check a rules file without a cluster; - reads standard input.\n\n" +
			"Prints problems to standard output as file:line:column: text, one a line and in\n" +
			"the order of the file; with --output json or yaml as a list. Warnings do not make a\n" +
			"file invalid. Exit codes: 0 valid, 1 not valid or not readable, 2 usage.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			data, name, err := readRules(g, args[0])
			if err != nil {
				return err
			}
			return printRuleCheck(g, validate(name, data))
		},
	}
}

// ruleCheck is what there is to say about a rules file. Its form in JSON and YAML is
// what scripts read.
type ruleCheck struct {
	File     string    `json:"file"`
	Valid    bool      `json:"valid"`
	Rules    int       `json:"rules"` // 0 if not valid
	Problems []finding `json:"problems"`
	Omitted  int       `json:"omitted"` // problems found beyond those listed
	Warnings []finding `json:"warnings"`
	why      error     // what Parse returned
}

// finding is a remark on one place of a file, counted from 1, columns in characters.
type finding struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

func (f finding) String() string { return rules.Problem(f).String() }

func findings(problems []rules.Problem) []finding {
	out := make([]finding, 0, len(problems)) // an empty list in JSON, not null
	for _, p := range problems {
		out = append(out, finding(p))
	}
	return out
}

func validate(name string, data []byte) ruleCheck {
	set, warnings, err := rules.Parse(name, data)
	v := ruleCheck{File: name, Valid: err == nil, Problems: []finding{}, Warnings: findings(warnings), why: err}
	if err == nil {
		v.Rules = len(set.Rules())
		return v
	}
	if refused, ok := errors.AsType[*rules.Error](err); ok {
		v.Problems, v.Omitted = findings(refused.Problems), refused.Omitted
	}
	return v
}

// printRuleCheck returns an error for a file that is not valid.
func printRuleCheck(g *console.Globals, v ruleCheck) error {
	err := g.PrintValue(v, func(w io.Writer) {
		for _, warning := range v.Warnings {
			fmt.Fprintf(g.Err, "warning: %s\n", warning)
		}
		for _, problem := range v.Problems {
			fmt.Fprintln(w, problem)
		}
		if v.Omitted > 0 {
			fmt.Fprintf(w, "and %d more\n", v.Omitted)
		}
		if v.Valid {
			fmt.Fprintf(w, "%s: %d rules, valid\n", v.File, v.Rules)
		}
	})
	if err == nil && !v.Valid {
		err = console.Reword(v.why, "%s is not valid; problems: %d", v.File, len(v.Problems)+v.Omitted)
	}
	return err
}
