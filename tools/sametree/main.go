// Command sametree shows that a change touches comments only. It compares the syntax trees of the
// Go files in the work tree, without their comments, with those of a git revision. It prints the
// files whose trees differ and then exits with status 1.
//
//	go run -C tools ./sametree -base origin/main budget limit
//
// The folders are relative to the root of the repository; without any it compares every file. Files
// that git does not track are compared too, files that it ignores are not.
//
// A comment that the toolchain acts on (//go:build, //go:embed, the output of an example) counts as
// code.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	base := flag.String("base", "HEAD", "git revision to compare with")
	flag.Parse()
	same, err := run(os.Stdout, *base, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "sametree:", err)
		os.Exit(2)
	}
	if !same {
		os.Exit(1)
	}
}

// run compares the folders of the repository around the working directory with the base revision
// and reports whether all syntax trees are the same.
func run(w io.Writer, base string, folders []string) (bool, error) {
	root, err := git(".", "rev-parse", "--show-toplevel")
	if err != nil {
		return false, err
	}
	r := repository{root: strings.TrimSpace(string(root)), base: base}
	files, err := r.changed(folders)
	if err != nil {
		return false, err
	}
	differ := 0
	for _, file := range files {
		what, err := r.compare(file)
		if err != nil {
			return false, err
		}
		if what != "" {
			differ++
			fmt.Fprintf(w, "%s: %s\n", file, what)
		}
	}
	fmt.Fprintf(w, "%d files changed since %s: %d in comments only, %d in their syntax tree\n", len(files), base, len(files)-differ, differ)
	return differ == 0, nil
}

// repository is a work tree and the revision that it is compared with.
type repository struct{ root, base string }

// changed returns the Go files whose bytes differ from the base revision, sorted.
func (r repository) changed(folders []string) ([]string, error) {
	specs := []string{"--", "*.go"}
	if len(folders) > 0 {
		specs = []string{"--"}
		for _, f := range folders {
			specs = append(specs, filepath.ToSlash(filepath.Clean(f)))
		}
	}
	tracked, err := git(r.root, append([]string{"diff", "--name-only", "--no-renames", "-z", r.base}, specs...)...)
	if err != nil {
		return nil, err
	}
	untracked, err := git(r.root, append([]string{"ls-files", "--others", "--exclude-standard", "-z"}, specs...)...)
	if err != nil {
		return nil, err
	}
	files := strings.Split(string(tracked)+string(untracked), "\x00")
	files = slices.DeleteFunc(files, func(f string) bool { return !strings.HasSuffix(f, ".go") })
	slices.Sort(files)
	return slices.Compact(files), nil
}

// compare says how the syntax tree of a file differs from the base revision's; "" if it does not.
func (r repository) compare(file string) (string, error) {
	after, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(file)))
	if errors.Is(err, os.ErrNotExist) {
		return "removed", nil
	}
	if err != nil {
		return "", err
	}
	listed, err := git(r.root, "ls-tree", "--name-only", r.base, "--", file)
	if err != nil {
		return "", err
	}
	if len(listed) == 0 {
		return "added", nil
	}
	before, err := git(r.root, "show", r.base+":"+file)
	if err != nil {
		return "", err
	}
	return difference(file, before, after)
}

// git runs a git command in a folder and returns what it prints.
func git(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w\n%s", args[0], err, stderr.Bytes())
	}
	return out, nil
}
