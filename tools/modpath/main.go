// Command modpath gives Aliquot's module another path, for those who publish it: a path without a
// dot cannot be fetched. From the top of the sources:
//
//	go run -C tools ./modpath github.com/you/aliquot
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	root := flag.String("root", "..", "folder of Aliquot's sources")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "give the new path of the module, such as github.com/you/aliquot")
		os.Exit(2)
	}
	changed, err := rename(*root, flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d files changed; now run `make generate`, which writes the path into the generated code, and `make check`\n", len(changed))
}

var (
	moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)
	validPath  = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9_.~-]+)+$`)
)

// rename gives the module in root, and the modules below it, another path. It returns the files
// that it changed, in lexical order.
func rename(root, path string) (changed []string, err error) {
	if !validPath.MatchString(path) {
		return nil, fmt.Errorf("%q cannot be fetched: a path begins with a domain, as github.com/you/aliquot does", path)
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	line := moduleLine.FindSubmatch(text)
	if line == nil {
		return nil, fmt.Errorf("%s has no line that names the module", filepath.Join(root, "go.mod"))
	}
	r := renaming{root: root, old: string(line[1]), path: path}
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		before, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		after, err := r.file(filepath.Base(file), before)
		if err != nil || bytes.Equal(before, after) {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		changed = append(changed, filepath.ToSlash(name))
		return os.WriteFile(file, after, info.Mode().Perm())
	})
	return changed, err
}

type renaming struct{ root, old, path string }

// file returns a file's text with the new path.
func (r renaming) file(name string, text []byte) ([]byte, error) {
	old := regexp.QuoteMeta(r.old)
	replace := func(pattern string) {
		text = regexp.MustCompile(`(?m)`+pattern).ReplaceAll(text, []byte("${1}"+r.path+"${2}"))
	}
	switch {
	case name == "go.mod":
		replace(`^(module |require |replace |\t)` + old + `((?:/\S+)?(?: .*)?)$`)
	case strings.HasSuffix(name, ".go"):
		replace(`(modulePath += ")` + old + `(")`)
		text = r.packages(text)
		formatted, err := format.Source(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return formatted, nil
	case strings.HasSuffix(name, ".proto"):
		replace(`^(option go_package = ")` + old + `(/)`)
	case name == "Makefile":
		replace(`(\^)` + old + `(/)`)
	case strings.HasSuffix(name, ".sh"):
		replace(`(module=)` + old + `([, ])`)
	}
	return text, nil
}

// packages replaces the path in quoted names of packages that there are: imports, and what tests
// and tools say of them. An image or a key of the same beginning stays.
func (r renaming) packages(text []byte) []byte {
	quoted := regexp.MustCompile(`"` + regexp.QuoteMeta(r.old) + `(/[\w./-]+)"`)
	return quoted.ReplaceAllFunc(text, func(found []byte) []byte {
		folder := string(quoted.FindSubmatch(found)[1])
		if info, err := os.Stat(filepath.Join(r.root, folder)); err != nil || !info.IsDir() {
			return found
		}
		return []byte(`"` + r.path + folder + `"`)
	})
}
