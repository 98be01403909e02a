package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/spf13/pflag"
)

const (
	// maxFileBytes: a daemon has some twenty settings, so a larger file is a wrong one.
	maxFileBytes = 1 << 20
	// maxProblems caps the problems reported for one file. A longer list would not be read.
	maxProblems = 20
	// maxNameShown cuts very long names in errors.
	maxNameShown = 64
)

// loader collects all problems of a file, not only the first one.
type loader struct {
	fs       *pflag.FlagSet
	file     string
	seen     map[string]bool
	problems []string
}

func loadFile(fs *pflag.FlagSet, file string) error {
	data, err := readFile(file)
	if err != nil {
		return err
	}
	l := &loader{fs: fs, file: file, seen: map[string]bool{}}
	l.load(data)
	if len(l.problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(l.problems, "\n"))
}

func (l *loader) load(data []byte) {
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			l.problem(syntax.GetToken(), "%s", syntax.GetMessage())
			return
		}
		l.problems = append(l.problems, fmt.Sprintf("%s: %v", l.file, err))
		return
	}
	docs := slices.DeleteFunc(parsed.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil })
	for i, doc := range docs {
		if i > 0 {
			l.problem(doc.Body.GetToken(), "a second document; a config file is one")
			return
		}
		l.document(doc.Body)
	}
}

func (l *loader) document(body ast.Node) {
	mapping, ok := body.(ast.MapNode)
	if !ok {
		l.problem(body.GetToken(), "expected settings, one \"name: value\" a line, as listed by --help")
		return
	}
	for fields := mapping.MapRange(); fields.Next(); {
		l.field(fields.KeyValue())
	}
}

func (l *loader) field(f *ast.MappingValueNode) {
	at := f.Key.GetToken()
	spelled := at.Value
	if len(spelled) > maxNameShown {
		spelled = spelled[:maxNameShown] + "..."
	}
	name := strings.ReplaceAll(at.Value, "_", "-")
	flag := l.fs.Lookup(name)
	switch {
	case flag == nil || !IsSetting(name):
		l.problem(at, "unknown field %q%s", spelled, l.suggest(name))
	case l.seen[name]:
		l.problem(at, "field %q is given twice", spelled)
	default:
		l.seen[name] = true
		l.value(flag, f.Value)
	}
}

func (l *loader) value(flag *pflag.Flag, n ast.Node) {
	v, err := toValue(n)
	wrong := ""
	if err != nil {
		wrong = err.Error()
	} else {
		wrong = set(l.fs, flag, v)
	}
	if wrong != "" {
		l.problem(n.GetToken(), "%s: %s", flag.Name, wrong)
	}
	setSource(flag, l.place(n.GetToken()))
}

func (l *loader) suggest(name string) string {
	var known []string
	l.fs.VisitAll(func(f *pflag.Flag) {
		if IsSetting(f.Name) {
			known = append(known, f.Name)
		}
	})
	if len(name) > maxNameShown {
		return ""
	}
	if n := nearest(name, known); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	return "; --help lists the known ones"
}

func (l *loader) problem(at *token.Token, format string, args ...any) {
	if len(l.problems) == maxProblems {
		return
	}
	l.problems = append(l.problems, l.place(at)+": "+fmt.Sprintf(format, args...))
}

// place returns file:line:column of a token.
func (l *loader) place(at *token.Token) string {
	if at == nil || at.Position == nil {
		return l.file
	}
	return fmt.Sprintf("%s:%d:%d", l.file, at.Position.Line, at.Position.Column)
}

// toValue converts a scalar or a sequence of scalars. Deeper nesting is an error.
func toValue(n ast.Node) (value, error) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		text, err := toText(n)
		return scalar(text), err
	}
	v := value{isList: true, items: []string{}}
	for _, item := range seq.Values {
		text, err := toText(item)
		if err != nil {
			return value{}, err
		}
		v.items = append(v.items, text)
	}
	return v, nil
}

func toText(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return strings.TrimRight(n.Value.Value, "\n"), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", errors.New("has no value; give one or remove the line")
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "", errors.New("anchors, aliases and tags are not supported; write the value out")
	}
	return "", errors.New("takes a plain value or a list of them, not a nested one")
}
