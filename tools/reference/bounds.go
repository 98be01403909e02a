package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// bound is a row of the page: constants of a package that belong together, the first with a comment.
type bound struct{ folder, names string }

// bounds are what a check meets on its way to the store, in the order in which it does.
var bounds = []struct {
	title, about string
	rows         []bound
}{
	{"Connections and messages", "Refused calls get 503 or `resource_exhausted`, and Envoy's calls an answer by `on_redis_failure`.", []bound{
		{"internal/rpc", "MaxConnections MaxPeerConnections"}, {"internal/rpc", "readHeaderTimeout"}, {"internal/rpc", "idleTimeout"},
		{"regional", "readTimeout"}, {"regional/internal/api", "maxGRPCStreams"}, {"regional/internal/api", "maxCallsGRPC"}, {"regional/internal/overload", "openPerCPU maxOpen fewOpen"},
		{"regional/internal/overload", "maxWeight weighWait"}, {"regional", "writeTimeout"},
		{"regional/internal/overload", "maxPartial"}, {"regional/internal/overload", "partialFor"}, {"regional/internal/api", "maxMessagesGRPC maxHeavyWaiting heavyWait"},
	}},
	{"The queue for a decision", "A connection waits to be read, or its call waits for its turn. Calls of more than 16 requests have a queue of their own.", []bound{
		{"regional/internal/overload", "decidingOfCore"}, {"regional/internal/overload", "spareOfHTTP"}, {"regional/internal/overload", "answersOfRefusal refuseEvery"},
		{"regional/internal/overload", "maxDeciding"}, {"regional/internal/overload", "maxWaiting decideWait"},
		{"regional/internal/overload", "maxSmall maxDecidingLarge"},
	}},
	{"Streams of checks", "", []bound{{"regional/internal/api", "maxStreamed"}, {"regional/internal/api", "streamMemory"}, {"regional/internal/api", "quotaRounds unreadFor"}}},
	{"Waits for tokens", "A check that memory or the store denied may wait for tokens that are on their way.", []bound{
		{"regional/internal/charge", "MaxWaitRounds"}, {"regional/internal/authority", "maxBorrowers"}, {"regional/internal/authority", "baseBorrowWait maxBorrowWait"},
	}},
	{"The store", "All that stands before a call of the store.", []bound{
		{"regional/internal/storeguard", "GroupsPerCall"}, {"regional/internal/storeguard", "BatchCalls"}, {"regional/internal/storeguard", "callSpacing"}, {"regional/internal/storeguard", "maxQueueWait"},
		{"regional/internal/storeguard", "CallerPatience"}, {"regional/internal/storeguard", "aliveWithin"}, {"regional/internal/storeguard", "checkEvery"},
		{"regional/internal/storeguard", "SilentPatience"},
		{"regional/internal/storeguard", "maxCalls"}, {"regional/internal/storeguard", "Deadline"}, {"regional/internal/storeguard", "learnDeadline"},
		{"regional/internal/storeguard", "HeardDeadline"}, {"regional/internal/storeguard", "ApplyDeadline"},
		{"regional/internal/storeguard", "starvedAfter"}, {"regional/internal/storeguard", "starvedFor"},
		{"regional/internal/storeguard", "TripAfter tripSample tripWindow"}, {"regional/internal/storeguard", "minOpen MaxOpen"}, {"regional/internal/storeguard", "openJitter"},
		{"regional/internal/storeguard", "retryCost"}, {"regional/internal/storeguard", "maxRetriesSaved"}, {"regional/internal/engine", "settleTries"},
	}},
	{"A Redis Cluster", "Each node has a breaker, and commands for slots that move are sent again.", []bound{
		{"regional/store/breaker", "TripAfter TrialEvery"}, {"regional/store/breaker", "SuspectAfter"}, {"regional/store/breaker", "lateBy excusedFor"},
		{"regional/store", "refusedWait maxSends maxRefusedWait"}, {"regional/store", "maxRedirects"}, {"regional/store", "refreshEvery"},
	}},
}

// boundsText lists the bounds with the values and comments of their constants.
func boundsText(root string) (string, error) {
	sources := &packages{root: root, files: token.NewFileSet(), known: map[string]*source{}}
	var b strings.Builder
	b.WriteString(wrapped("A call of Redis needs one of 16 connections. Its wait for one counts as a part of the call.") + "\n\n")
	for _, part := range bounds {
		b.WriteString("## " + part.title + "\n\n")
		if part.about != "" {
			b.WriteString(wrapped(part.about) + "\n\n")
		}
		var rows [][]string
		for _, r := range part.rows {
			row, err := sources.row(r)
			if err != nil {
				return "", err
			}
			rows = append(rows, row)
		}
		b.WriteString(table([]string{"value", "constant", "what it does"}, rows))
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// row returns the row of a bound, whose constants may stand in a package below its folder.
func (p *packages) row(b bound) ([]string, error) {
	names := strings.Fields(b.names)
	below, err := filepath.Glob(filepath.Join(p.root, b.folder, "internal/*"))
	if err != nil {
		return nil, err
	}
	for _, folder := range append([]string{filepath.Join(p.root, b.folder)}, below...) {
		folder, err = filepath.Rel(p.root, folder)
		if err != nil {
			return nil, err
		}
		pkg, err := p.read(filepath.ToSlash(folder))
		if err != nil {
			return nil, err
		}
		var values []string
		for _, name := range names {
			if c, ok := pkg.types.Scope().Lookup(name).(*types.Const); ok && c.Val().Kind() == constant.Int {
				values = append(values, valueText(c))
			}
		}
		if about := pkg.comments[names[0]]; len(values) == len(names) && about != "" {
			return []string{strings.Join(values, ", "), code(strings.Join(names, ", ")), about}, nil
		}
	}
	return nil, fmt.Errorf("no package of %s has the constants %s, with a comment", b.folder, b.names)
}

// valueText writes a constant with its unit.
func valueText(c *types.Const) string {
	n, _ := constant.Int64Val(c.Val())
	switch {
	case strings.HasSuffix(c.Type().String(), "time.Duration"):
		return time.Duration(n).String()
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprint(n)
}

// source is what is read of a package: its constants, and the comments on them.
type source struct {
	types    *types.Package
	comments map[string]string
}

// packages reads packages of the sources for their constants. Of other packages they may need time's.
type packages struct {
	root  string
	files *token.FileSet
	known map[string]*source
}

// durations are the constants of package time.
const durations = `package time
type Duration int64
const (Nanosecond Duration = 1; Microsecond = 1000 * Nanosecond; Millisecond = 1000 * Microsecond
Second = 1000 * Millisecond; Minute = 60 * Second; Hour = 60 * Minute)`

// Import returns a package, an empty one if it is not of these sources.
func (p *packages) Import(path string) (*types.Package, error) {
	if folder, ours := strings.CutPrefix(path, "aliquot/"); ours && !strings.HasPrefix(folder, "proto/") {
		s, err := p.read(folder)
		if err != nil {
			return nil, err
		}
		return s.types, nil
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	text := "package " + strings.NewReplacer("-", "_", ".", "_").Replace(name)
	if path == "time" {
		text = durations
	}
	file, err := parser.ParseFile(p.files, path, text, 0)
	if err != nil {
		return nil, err
	}
	return p.check(path, []*ast.File{file}), nil
}

// read reads a package.
func (p *packages) read(folder string) (*source, error) {
	if s := p.known[folder]; s != nil {
		return s, nil
	}
	parsed, err := parser.ParseDir(p.files, filepath.Join(p.root, folder), func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	s := &source{comments: map[string]string{}}
	var files []*ast.File
	for _, pkg := range parsed {
		for _, f := range pkg.Files {
			files = append(files, f)
			s.note(f)
		}
	}
	s.types = p.check(folder, files)
	p.known[folder] = s
	return s, nil
}

// check returns the package with what is constant in it. Errors are those of the packages that are left out.
func (p *packages) check(path string, files []*ast.File) *types.Package {
	config := types.Config{Importer: p, IgnoreFuncBodies: true, FakeImportC: true, Error: func(error) {}}
	pkg, _ := config.Check(path, p.files, files, nil)
	return pkg
}

// note notes the comments on the constants of a file.
func (s *source) note(f *ast.File) {
	for _, d := range f.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for i, spec := range group.Specs {
			v := spec.(*ast.ValueSpec)
			doc := cmp.Or(v.Doc, v.Comment)
			if i == 0 {
				doc = cmp.Or(doc, group.Doc)
			}
			if doc != nil {
				s.comments[v.Names[0].Name] = doc.Text()
			}
		}
	}
}
