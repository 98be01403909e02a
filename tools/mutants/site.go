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
	// handles reports whether the line looks only at an error.
	handles bool
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

// guards are the files of regional, coordinator and cluster whose lines guard the promise, by their
// names without .go: those that decide what a daemon may spend, what it knows of other daemons and of
// its store, what a coordinator may promise, and what the log may say.
var guards = strings.Fields(`
	authority authority_settle batcher batcher_alone breaker clock clock_stops emergency fallback former guard hello
	introduce leave limiter local local_again local_call local_park local_table others overrun policy probe report
	reserve reservation session settle retry session_watch slot state unreported wire
	cluster cluster_breaker cluster_clock cluster_config cluster_contents cluster_epoch cluster_heard cluster_nodes
	cluster_reach cluster_refusals cluster_reserve cluster_run cluster_take cold memory apply
	redis replies sentinel shard
	audit key breach floors leadership loop promise rollout claims lease
	bootstrap commands fsm identity join leader membership node proof propose remove log damage seal snapshots proofs
	command machine regions rulebook snapshot`)

// divides are the files of budget that divide what is safe to divide, display it, or write it for the
// checker: the promise does not rest on them.
var divides = strings.Fields("demand leader_use leader_status state state_leader state_messages state_region state_tokens unused use wants")

// guarding reports whether lines of a file guard the promise.
func guarding(file string) bool {
	folder, name := filepath.ToSlash(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".go")
	switch folder, _, _ := strings.Cut(folder, "/"); folder {
	case "regional", "coordinator", "cluster":
		return !strings.Contains(file, "/gossip/") && slices.Contains(guards, name)
	case "budget":
		return !slices.Contains(divides, name)
	}
	return true
}

// drawn are the sites in an order drawn from a seed, at most one of a line, of each folder in turn.
func drawn(root string, folders []string, seed uint64, all bool) ([]site, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	var each [][]site
	most := 0
	for _, folder := range folders {
		found, err := sitesUnder(root, []string{folder})
		if err != nil {
			return nil, err
		}
		if !all {
			found = slices.DeleteFunc(found, func(s site) bool { return !guarding(s.File) || s.handles })
		}
		each = append(each, shuffled(found, random))
		most = max(most, len(found))
	}
	var out []site
	for i := range most {
		for _, found := range each {
			if i < len(found) {
				out = append(out, found[i])
			}
		}
	}
	return out, nil
}

// shuffled are sites in random order, at most one of a line.
func shuffled(all []site, random *rand.Rand) []site {
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
		handles := strings.Contains(line, "err != nil") || strings.Contains(line, "err == nil")
		out = append(out, site{File: name, Line: start.Line, Kind: kind, Before: string(text[a:b]), After: after, from: a, to: b, handles: handles})
	}
	source := func(n ast.Node) string {
		return string(text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
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
				add("condition", n.Cond.Pos(), n.Cond.End(), "true || "+source(n.Cond))
				add("condition", n.Cond.Pos(), n.Cond.End(), "false && ("+source(n.Cond)+")")
			}
		case *ast.CallExpr:
			switch called := source(n.Fun); {
			case called == "min":
				add("swapped", n.Fun.Pos(), n.Fun.End(), "max")
			case called == "max":
				add("swapped", n.Fun.Pos(), n.Fun.End(), "min")
			case called == "context.WithTimeout" || called == "context.WithDeadline":
				add("deadline left out", n.Pos(), n.End(), "context.WithCancel("+source(n.Args[0])+")")
			}
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, c := range n.Body.List {
					for _, x := range c.(*ast.CaseClause).List {
						add("case", x.Pos(), x.End(), "false && ("+source(x)+")")
					}
				}
			}
		case *ast.AssignStmt:
			if _, field := n.Lhs[0].(*ast.SelectorExpr); field && n.Tok != token.DEFINE {
				add("assignment left out", n.Pos(), n.End(), "")
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
	swaps := []string{" < ", " <= ", " > ", " >= ", " == ", " ~= ", " and ", " or ", "math.min(", "math.max("}
	var out []site
	offset := 0
	for i, line := range strings.SplitAfter(string(text), "\n") {
		code, _, _ := strings.Cut(line, "--")
		for j, before := range swaps {
			if at := strings.Index(code, before); at >= 0 {
				out = append(out, site{File: name, Line: i + 1, Kind: "operator", Before: before, After: swaps[j^1], from: offset + at, to: offset + at + len(before)})
			}
		}
		offset += len(line)
	}
	return out, nil
}
