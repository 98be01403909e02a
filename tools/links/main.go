// Command links checks that what pages and sources point to is there: the links and anchors of every
// Markdown page, each page of docs/ that another file names, with its anchor, and the targets of make and
// programs of these sources in the commands of pages. From the top:
//
//	go run -C tools ./links
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

func main() {
	root := flag.String("root", "..", "folder of Aliquot's sources")
	flag.Parse()
	found, err := check(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, p := range found.problems {
		fmt.Println(p)
	}
	fmt.Printf("%d links and names of pages in %d files, %d problems\n", found.links, found.files, len(found.problems))
	if len(found.problems) > 0 {
		os.Exit(1)
	}
}

// result is what was found in all files.
type result struct {
	// files are those with a link, and links is how many they have together.
	files, links int
	problems     []string
}

// tree is a folder of sources while it is checked. Paths are relative to it, with slashes.
type tree struct {
	root string
	// anchors has the anchors of each page that a link pointed to.
	anchors map[string][]string
	// linked are the pages that a link of another page leads to.
	linked map[string]bool
	// targets are those of the Makefile at the top.
	targets []string
	result
}

// extensions are of files that may name a page of docs/.
var extensions = []string{".go", ".proto", ".lua", ".sh", ".yml", ".yaml", ".toml", ".json", ".svg", ".service", ".md"}

// check returns every link below root that leads nowhere, and every page of docs/ that no page links.
func check(root string) (result, error) {
	t := &tree{root: root, anchors: map[string][]string{}, linked: map[string]bool{}}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return result{}, err
	}
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		t.targets = append(t.targets, m[1])
	}
	var pages []string
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (file != root && strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"bin", "testdata", "node_modules"}, entry.Name())):
			return filepath.SkipDir
		case !entry.Type().IsRegular() || entry.Name() != "Makefile" && !slices.Contains(extensions, path.Ext(entry.Name())):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if path.Ext(name) == ".md" {
			if strings.HasPrefix(name, "docs/") {
				pages = append(pages, name)
			}
			t.page(name, string(text))
		} else {
			t.source(name, string(text))
		}
		return nil
	})
	for _, p := range pages {
		if !t.linked[p] {
			t.problems = append(t.problems, p+": no other page links it")
		}
	}
	slices.Sort(t.problems)
	return t.result, err
}

var (
	inline     = regexp.MustCompile(`\]\(\s*<?([^)\s>]*)>?(?:\s+"[^"]*")?\s*\)`)
	definition = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)`)
	attribute  = regexp.MustCompile(`\b(?:href|src)="([^"]*)"`)
	links      = []*regexp.Regexp{inline, definition, attribute}
	codeSpan   = regexp.MustCompile("`[^`]+`")
	// named is a page of docs/ in a source, a comment or a code span.
	named = regexp.MustCompile(`\bdocs/[\w./-]*\w\.md(?:#[\w-]+)?`)
	// sourcePath is a file of the sources in a code span, such as internal/sim/run/main.go.
	sourcePath = regexp.MustCompile("`([a-z]+(?:/[A-Za-z0-9_.-]+)+\\.(?:go|lua|proto|sh|yaml|yml|json))`")
)

var (
	target = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	// made is a target of make in a command.
	made = regexp.MustCompile("(?:^|[`(]|&& )make ([a-z][a-z-]*)")
	// program is a folder that a command runs or tests, with the tests that it names.
	program  = regexp.MustCompile(`\bgo (?:run|test)( -C tools)? \./([\w/-]+)([^\x60;]*)`)
	runs     = regexp.MustCompile(` -run '?([\w|\\/]+)`)
	function = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(`)
)

// command checks what a line has of commands: the targets of make, the folders of these sources that a command runs,
// and that a test there has the name that it asks for.
func (t *tree) command(at, line string) {
	for _, m := range made.FindAllStringSubmatch(line, -1) {
		t.links++
		if !slices.Contains(t.targets, m[1]) {
			t.problems = append(t.problems, fmt.Sprintf("%s: make %s: the Makefile has no such target", at, m[1]))
		}
	}
	for _, m := range program.FindAllStringSubmatch(line, -1) {
		t.links++
		folder := strings.TrimSuffix(m[2], "/")
		if m[1] != "" {
			folder = path.Join("tools", folder)
		}
		if !t.exists(folder) {
			t.problems = append(t.problems, fmt.Sprintf("%s: %s: no such folder", at, folder))
			continue
		}
		named := runs.FindStringSubmatch(m[3])
		if named == nil || named[1] == "xxx" {
			continue
		}
		name, _, _ := strings.Cut(strings.ReplaceAll(named[1], `\|`, "|"), "/")
		if !t.tests(folder, name) {
			t.problems = append(t.problems, fmt.Sprintf("%s: %s has no test %s", at, folder, name))
		}
	}
}

// tests reports whether a folder has a test whose name matches a pattern.
func (t *tree) tests(folder, pattern string) bool {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return false
	}
	files, _ := filepath.Glob(filepath.Join(t.root, folder, "*_test.go"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			if wanted.MatchString(m[1]) {
				return true
			}
		}
	}
	return false
}

// page checks the links of a Markdown page. Code is looked at for names of pages alone.
func (t *tree) page(name, text string) {
	before := t.links
	eachLine(text, func(number int, line string, code bool) {
		at := fmt.Sprintf("%s:%d", name, number)
		if !code {
			plain := codeSpan.ReplaceAllStringFunc(line, func(span string) string { return strings.Repeat("`", len(span)) })
			for _, pattern := range links {
				for _, m := range pattern.FindAllStringSubmatch(plain, -1) {
					t.link(at, name, m[1])
				}
			}
			for _, pattern := range links {
				line = pattern.ReplaceAllString(line, "]")
			}
			// CHANGELOG.md tells of files as they were.
			if name != "CHANGELOG.md" {
				for _, m := range sourcePath.FindAllStringSubmatch(line, -1) {
					t.file(at, name, m[1])
				}
			}
		}
		if name != "CHANGELOG.md" {
			t.names(at, line)
			if command, indented := strings.CutPrefix(line, "    "); indented {
				t.command(at, command)
			} else {
				t.command(at, line)
			}
		}
	})
	if t.links > before {
		t.files++
	}
}

// source checks the pages that a file names which is no page.
func (t *tree) source(name, text string) {
	before := t.links
	number := 0
	for line := range strings.Lines(text) {
		number++
		t.names(fmt.Sprintf("%s:%d", name, number), line)
	}
	if t.links > before {
		t.files++
	}
}

// names checks the pages that a line of text names by their path from the top.
func (t *tree) names(at, line string) {
	for _, target := range named.FindAllString(line, -1) {
		t.link(at, "", target)
	}
}

// file checks a file of the sources that a page names, from the top or from the page's folder. One whose
// first folder is not at the top is an example.
func (t *tree) file(at, from, name string) {
	top, _, _ := strings.Cut(name, "/")
	if !t.exists(top) {
		return
	}
	t.links++
	if !t.exists(name) && !t.exists(path.Join(path.Dir(from), name)) {
		t.problems = append(t.problems, fmt.Sprintf("%s: %s: no such file", at, name))
	}
}

func (t *tree) exists(name string) bool {
	_, err := os.Stat(filepath.Join(t.root, name))
	return err == nil
}

// link checks a link of a page. A page without a name is at the top.
func (t *tree) link(at, from, target string) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return
	}
	t.links++
	file, anchor, hasAnchor := strings.Cut(target, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	info, err := os.Stat(filepath.Join(t.root, to))
	switch {
	case err != nil || to == ".." || strings.HasPrefix(to, "../"):
		t.problems = append(t.problems, fmt.Sprintf("%s: %s: no such file", at, target))
		return
	case to != from:
		t.linked[to] = true
	}
	if !hasAnchor {
		return
	}
	if info.IsDir() || path.Ext(to) != ".md" {
		t.problems = append(t.problems, fmt.Sprintf("%s: %s: only pages have anchors", at, target))
		return
	}
	anchors, known := t.anchors[to]
	if !known {
		text, err := os.ReadFile(filepath.Join(t.root, to))
		if err != nil {
			t.problems = append(t.problems, fmt.Sprintf("%s: %s: %v", at, target, err))
			return
		}
		anchors = anchorsOf(string(text))
		t.anchors[to] = anchors
	}
	if !slices.Contains(anchors, anchor) {
		t.problems = append(t.problems, fmt.Sprintf("%s: %s: the page has no such heading", at, target))
	}
}

var (
	heading  = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	explicit = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchorsOf returns what a link to a page may have after its #: the headings in the form that GitHub
// gives them, and explicit anchors.
func anchorsOf(text string) []string {
	var anchors []string
	seen := map[string]int{}
	eachLine(text, func(_ int, line string, code bool) {
		if code {
			return
		}
		for _, m := range explicit.FindAllStringSubmatch(line, -1) {
			anchors = append(anchors, m[1])
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			return
		}
		anchor := slug(linkText.ReplaceAllString(m[1], "$1"))
		n := seen[anchor]
		seen[anchor]++
		if n > 0 {
			anchor = fmt.Sprintf("%s-%d", anchor, n)
		}
		anchors = append(anchors, anchor)
	})
	return anchors
}

// slug returns a heading in lower case, with a hyphen for each space and without punctuation.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// eachLine calls visit with each line of a Markdown page, its number from 1 on, and whether it is in a
// fenced block of code.
func eachLine(text string, visit func(number int, line string, code bool)) {
	fence := ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]) == "" {
				fence = ""
			}
			visit(number, line, true)
		case strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
			visit(number, line, true)
		default:
			visit(number, line, false)
		}
	}
}
