package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"connectrpc.com/connect"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// Codes of errors that no daemon answered.
const (
	codeUsage  = "usage"  // a mistake on the command line
	codeFailed = "failed" // anything else
)

// reworded is an error that says in other words what its cause says.
type reworded struct {
	text  string
	cause error
}

// Error implements error.
func (e reworded) Error() string { return e.text }

// Unwrap returns the cause, which has the code and the places of the problems.
func (e reworded) Unwrap() error { return e.cause }

// Reword returns an error with a text of its own. --output json still prints the code and the places
// that the cause has.
func Reword(cause error, format string, args ...any) error {
	return reworded{fmt.Sprintf(format, args...), cause}
}

// fault is an error as --output json and yaml print it. Scripts read it.
type fault struct {
	// Code is that of the daemon's answer, such as invalid_argument, or usage, or failed.
	Code    string `json:"code"`
	Message string `json:"message"`
	// The place of the first problem, if the error is about a file. Line and column count from 1.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Problems are all problems of the file, and Omitted is how many more there are.
	Problems []place `json:"problems,omitempty"`
	Omitted  int     `json:"omitted,omitempty"`
	// Help is the command that says what is accepted.
	Help string `json:"help,omitempty"`
}

// place is one problem of a file.
type place struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

// PrintError writes the error of a command to Err: as text, or as one object {"error": ...} if
// --output asks for JSON or YAML. help is the command that says what is accepted. It is named for a
// mistake on the command line args.
func (g *Globals) PrintError(err error, args []string, help string) {
	if _, usage := errors.AsType[UsageError](err); !usage {
		help = ""
	}
	as := &Globals{Streams: Streams{Out: g.Err}, Output: g.errorFormat(args)}
	_ = as.PrintValue(map[string]fault{"error": faultOf(err, help)}, func(w io.Writer) { // it fails if nobody reads
		fmt.Fprintf(w, "aliquot: %v\n", err)
		if help != "" {
			fmt.Fprintf(w, "See '%s'.\n", help)
		}
	})
}

// errorFormat returns the format of an error. Of a wrong command line some flags were not read, so it looks
// at the arguments.
func (g *Globals) errorFormat(args []string) string {
	format := g.Output
	for i, arg := range args {
		if arg == "--" {
			break
		}
		value := ""
		switch {
		case (arg == "--output" || arg == "-o") && i+1 < len(args):
			value = args[i+1]
		case strings.HasPrefix(arg, "--output="):
			value = strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o"):
			value = strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")
		}
		if slices.Contains(outputs, value) {
			format = value
		}
	}
	if format == "" {
		return outputs[0]
	}
	return format
}

// AboutAFile reports whether a daemon's error names problems of a rules file.
func AboutAFile(err *connect.Error) bool {
	problems, _ := placesOf(err)
	return len(problems) > 0
}

func faultOf(err error, help string) fault {
	out := fault{Code: codeFailed, Message: err.Error(), Help: help}
	remote, answered := errors.AsType[*connect.Error](err)
	refused, local := errors.AsType[*rules.Error](err)
	switch {
	case help != "":
		out.Code = codeUsage
	case answered:
		out.Code = remote.Code().String()
		out.Problems, out.Omitted = placesOf(remote)
	case local:
		out.Code = connect.CodeInvalidArgument.String()
		for _, p := range refused.Problems {
			out.Problems = append(out.Problems, place(p))
		}
		out.Omitted = refused.Omitted
	case errors.Is(err, context.DeadlineExceeded):
		out.Code = connect.CodeDeadlineExceeded.String()
	}
	if len(out.Problems) > 0 {
		first := &out.Problems[0]
		out.File, out.Line, out.Column = first.File, first.Line, first.Column
	}
	return out
}

// placesOf returns the problems of rules that a coordinator refused.
func placesOf(of *connect.Error) (problems []place, omitted int) {
	for _, detail := range of.Details() {
		value, err := detail.Value()
		if err != nil {
			continue // of a newer version
		}
		if refused, ok := value.(*aliquotv1.RulesProblems); ok {
			for _, p := range refused.GetProblems() {
				problems = append(problems, place{p.GetFile(), int(p.GetLine()), int(p.GetColumn()), p.GetMessage()})
			}
			omitted += int(refused.GetOmitted())
		}
	}
	return problems, omitted
}
