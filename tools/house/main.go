// Command house measures how a checkout of Aliquot is built: folders, packages, files and lines without
// tests and generated code, arrows between the files of a package, and lines with words of the old
// dialect. Run it on two checkouts to compare them: `go run -C tools ./house -root /path/to/another`.
// With -test it runs `make test` there too, and prints its seconds.
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// words are the words that the project's words have replaced, one a line, as regular expressions. See
// docs/reference/glossary.md.
//
//go:embed words.txt
var words string

var dialect = regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(strings.TrimSpace(words), "\n", "|") + `)\b`)

// figures are the measurements of one checkout. Lines and files are of Go code without tests and
// without generated code.
type figures struct {
	Folders      int    `json:"folders_at_the_top"`
	Packages     int    `json:"packages"`
	Largest      string `json:"largest_package"`
	LargestLines int    `json:"largest_package_lines"`
	Above        int    `json:"packages_above_3200_lines"`
	Files        int    `json:"files"`
	Lines        int    `json:"lines"`
	TestLines    int    `json:"lines_of_tests"`
	MedianFile   int    `json:"median_file_lines"`
	LongestTenth int    `json:"longest_tenth_begins_at_lines"`
	LongestFile  int    `json:"longest_file_lines"`
	Dialect      int    `json:"lines_in_dialect"`
	ArrowsUp     int    `json:"arrows_up"`
	Arrows       int    `json:"arrows"`
	// Worst are the ten packages with the most arrows upwards.
	Worst []arrows `json:"worst"`
	// TestSeconds is how long `make test` took; zero if it was not run.
	TestSeconds float64 `json:"test_seconds,omitempty"`
}

func main() {
	root := flag.String("root", "..", "folder of Aliquot's sources")
	output := flag.String("output", "text", "text or json")
	test := flag.Bool("test", false, "run `make test` in that folder and measure its time")
	flag.Parse()
	f, err := measure(*root)
	if err == nil && *test {
		f.TestSeconds, err = runTests(*root)
	}
	switch {
	case err != nil:
	case *output == "json":
		err = json.NewEncoder(os.Stdout).Encode(f)
	case *output == "text":
		f.print()
	default:
		err = fmt.Errorf("--output is text or json, not %q", *output)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measure reads every Go file below root.
func measure(root string) (f figures, err error) {
	lines, files, paths := map[string]int{}, []int(nil), []string(nil)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() && filepath.Dir(path) == filepath.Clean(root) && path != root:
			f.Folders++
			return nil
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := string(content)
		if strings.Contains(text[:min(len(text), 200)], "DO NOT EDIT") {
			return nil
		}
		n := strings.Count(text, "\n")
		for line := range strings.Lines(text) {
			if dialect.MatchString(line) {
				f.Dialect++
			}
		}
		if strings.HasSuffix(path, "_test.go") {
			f.TestLines += n
			return nil
		}
		lines[filepath.Dir(path)] += n
		files, paths = append(files, n), append(paths, path)
		return nil
	})
	if err != nil {
		return f, err
	}
	if len(files) == 0 {
		return f, errors.New("there are no Go files; point -root at a checkout")
	}
	slices.Sort(files)
	f.Packages, f.Files = len(lines), len(files)
	f.MedianFile, f.LongestTenth, f.LongestFile = files[len(files)/2], files[len(files)*9/10], files[len(files)-1]
	for dir, n := range lines {
		f.Lines += n
		if n > 3200 {
			f.Above++
		}
		if n > f.LargestLines {
			name, _ := filepath.Rel(root, dir)
			f.Largest, f.LargestLines = name, n
		}
	}
	for name, of := range packages(root, paths) {
		a, err := arrowsOf(name, of)
		if err != nil {
			return f, err
		}
		f.Arrows, f.ArrowsUp = f.Arrows+a.All, f.ArrowsUp+a.Up
		f.Worst = append(f.Worst, a)
	}
	f.Worst = worst(f.Worst, 10)
	return f, nil
}

// runTests returns the seconds of `make test`, whose output goes to standard error.
func runTests(root string) (float64, error) {
	command := exec.Command("make", "-C", root, "test")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	start := time.Now()
	if err := command.Run(); err != nil {
		return 0, fmt.Errorf("make -C %s test: %w", root, err)
	}
	return time.Since(start).Seconds(), nil
}

func (f *figures) print() {
	fmt.Printf("folders at the top             %8d  (16 at most)\n", f.Folders)
	fmt.Printf("packages                       %8d\n", f.Packages)
	fmt.Printf("largest package                %8d lines: %s\n", f.LargestLines, f.Largest)
	fmt.Printf("packages above 3,200 lines     %8d  (budget alone may)\n", f.Above)
	fmt.Printf("files                          %8d\n", f.Files)
	fmt.Printf("lines                          %8d\n", f.Lines)
	fmt.Printf("lines of tests                 %8d\n", f.TestLines)
	fmt.Printf("lines of the median file       %8d\n", f.MedianFile)
	fmt.Printf("the longest tenth begins at    %8d lines; the longest file has %d\n", f.LongestTenth, f.LongestFile)
	fmt.Printf("lines with words of the dialect%8d\n", f.Dialect)
	fmt.Printf("arrows between a package's files %6d, of which %d run back up\n", f.Arrows, f.ArrowsUp)
	for _, a := range f.Worst {
		fmt.Printf("  %-29s%8d, of which %d run back up\n", a.Package, a.All, a.Up)
	}
	if f.TestSeconds > 0 {
		fmt.Printf("seconds of make test           %8.0f\n", f.TestSeconds)
	}
}
