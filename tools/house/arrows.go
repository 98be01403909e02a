package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// arrows counts, for one package, which of its files use which others.
type arrows struct {
	Package string `json:"package"`
	// All has one arrow for each pair of files of which the first names something that the second declares.
	All int `json:"all"`
	// Up are the arrows that point from a lower file to a higher one when the files are ordered so that
	// few do. A package whose files need each other in a circle has at least one.
	Up int `json:"up"`
}

// arrowsOf reads the files of one package. Imports are not followed, so a method is seen only on a value
// whose type the package itself tells.
func arrowsOf(name string, paths []string) (arrows, error) {
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return arrows{}, err
		}
		files = append(files, file)
	}
	// The errors are those of the imports, which are not there.
	uses := types.Info{Uses: map[*ast.Ident]types.Object{}}
	check := types.Config{Error: func(error) {}, Importer: noImports{}, FakeImportC: true}
	pkg, _ := check.Check(name, set, files, &uses)
	targets := map[string]map[string]bool{}
	for _, path := range paths {
		targets[path] = map[string]bool{}
	}
	for id, object := range uses.Uses {
		if object.Pkg() != pkg || !declared(object) {
			continue
		}
		from, to := set.Position(id.Pos()).Filename, set.Position(object.Pos()).Filename
		if from != to && targets[to] != nil {
			targets[from][to] = true
		}
	}
	a := arrows{Package: name}
	order := ordered(targets)
	for from, all := range targets {
		for to := range all {
			a.All++
			if slices.Index(order, from) > slices.Index(order, to) {
				a.Up++
			}
		}
	}
	return a, nil
}

// declared tells whether an object is a declaration of its package, a method or a field.
func declared(object types.Object) bool {
	switch o := object.(type) {
	case *types.PkgName:
		return false
	case *types.Func:
		return true
	case *types.Var:
		return o.IsField() || o.Parent() == o.Pkg().Scope()
	}
	return object.Parent() == object.Pkg().Scope()
}

type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	return nil, errors.New("imports are not read")
}

// ordered returns the files from the highest, which others do not use, to the lowest, which uses no other.
// A file in a circle comes as early as it uses more files than use it (the heuristic of Eades, Lin and
// Smyth for few arrows upwards).
func ordered(targets map[string]map[string]bool) []string {
	left := map[string]bool{}
	for file := range targets {
		left[file] = true
	}
	// The arrows out of and into a file, among those that are left.
	degrees := func(file string) (out, in int) {
		for other := range left {
			if targets[file][other] {
				out++
			}
			if targets[other][file] {
				in++
			}
		}
		return out, in
	}
	var first, last []string
	for len(left) > 0 {
		var chosen string
		highest, lowest := -len(targets)-1, false
		for _, file := range slices.Sorted(maps.Keys(left)) {
			out, in := degrees(file)
			if out == 0 {
				chosen, lowest = file, true
				break
			}
			if in == 0 {
				out += len(targets) // before all files in circles
			}
			if out-in > highest {
				chosen, highest = file, out-in
			}
		}
		delete(left, chosen)
		if lowest {
			last = append(last, chosen)
		} else {
			first = append(first, chosen)
		}
	}
	slices.Reverse(last)
	return append(first, last...)
}

// worst returns the n packages with the most arrows upwards.
func worst(all []arrows, n int) []arrows {
	slices.SortFunc(all, func(a, b arrows) int {
		if a.Up != b.Up {
			return b.Up - a.Up
		}
		return strings.Compare(a.Package, b.Package)
	})
	return all[:min(n, len(all))]
}

// packages groups files by folder and by the name of their package, below root.
func packages(root string, paths []string) map[string][]string {
	all := map[string][]string{}
	for _, path := range paths {
		name, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			name = filepath.Dir(path)
		}
		all[filepath.ToSlash(name)] = append(all[filepath.ToSlash(name)], path)
	}
	return all
}
