package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// site is one place that can be changed.
type site struct {
	File   string `json:"file"` // from the root of the module
	Line   int    `json:"line"`
	Kind   string `json:"kind"`
	Before string `json:"before"`
	After  string `json:"after"`
	from   int    // offsets in the file
	to     int
}

func (s site) String() string {
	return fmt.Sprintf("%s:%d %s: %s -> %s", s.File, s.Line, s.Kind, strings.TrimSpace(s.Before), strings.TrimSpace(s.After))
}

// quiet are words of lines that decide nothing: what is logged, counted, described or worded.
var quiet = []string{"log.", "slog.", "metrics.", "Errorf", "errors.New", "panic(", "Help:", "fmt.", "WithLabelValues", "description", "String()"}

// sitesUnder finds every site in the Go and Lua files of some folders, tests and generated code
// left out.
func sitesUnder(root string, folders []string) ([]site, error) {
	var out []site
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			name, relative := e.Name(), ""
			if relative, err = filepath.Rel(root, path); err != nil {
				return err
			}
			switch {
			case strings.HasSuffix(name, "_test.go"), strings.Contains(relative, "redistest"):
				return nil
			case strings.HasSuffix(name, ".go"):
				found, err := goSites(path, filepath.ToSlash(relative))
				out = append(out, found...)
				return err
			case strings.HasSuffix(name, ".lua"):
				found, err := luaSites(path, filepath.ToSlash(relative))
				out = append(out, found...)
				return err
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// shuffled are the sites in an order drawn from a seed, at most one of a line.
func shuffled(all []site, seed uint64) []site {
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(s site) bool {
		line := fmt.Sprintf("%s:%d", s.File, s.Line)
		again := seen[line]
		seen[line] = true
		return again
	})
}

// opposite comparisons and operators.
var operators = map[token.Token][]string{
	token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LAND: {"||"}, token.LOR: {"&&"},
}

func goSites(path, name string) ([]site, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	var out []site
	add := func(kind string, from, to token.Pos, after string) {
		start := set.Position(from)
		line := lines[start.Line-1]
		if slices.ContainsFunc(quiet, func(w string) bool { return strings.Contains(line, w) }) {
			return
		}
		a, b := start.Offset, set.Position(to).Offset
		out = append(out, site{File: name, Line: start.Line, Kind: kind, Before: string(text[a:b]), After: after, from: a, to: b})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			for _, op := range operators[n.Op] {
				add("operator", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op)
			}
		case *ast.BasicLit:
			if value, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT && value > 1 {
				add("number", n.Pos(), n.End(), strconv.Itoa(value+1))
				add("number", n.Pos(), n.End(), strconv.Itoa(value*2))
			}
		case *ast.IfStmt:
			if n.Init == nil {
				add("condition", n.Cond.Pos(), n.Cond.End(), "true || "+string(text[set.Position(n.Cond.Pos()).Offset:set.Position(n.Cond.End()).Offset]))
				add("condition", n.Cond.Pos(), n.Cond.End(), "false && ("+string(text[set.Position(n.Cond.Pos()).Offset:set.Position(n.Cond.End()).Offset])+")")
			}
		case *ast.ExprStmt:
			if _, call := n.X.(*ast.CallExpr); call {
				add("call left out", n.Pos(), n.End(), "")
			}
		case *ast.ImportSpec, *ast.GenDecl:
			if g, ok := n.(*ast.GenDecl); ok && g.Tok != token.CONST {
				return g.Tok == token.VAR
			}
		}
		return true
	})
	return out, nil
}

// luaSites are the comparisons of a script.
func luaSites(path, name string) ([]site, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []site
	offset := 0
	for i, line := range strings.SplitAfter(string(text), "\n") {
		code, _, _ := strings.Cut(line, "--")
		for before, after := range map[string]string{" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " ~= ", " ~= ": " == ", " and ": " or ", " or ": " and "} {
			if at := strings.Index(code, before); at >= 0 {
				out = append(out, site{File: name, Line: i + 1, Kind: "operator", Before: before, After: after, from: offset + at, to: offset + at + len(before)})
			}
		}
		offset += len(line)
	}
	return out, nil
}
