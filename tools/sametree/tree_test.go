package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package p

// Add is the sum.
func Add(a, b int) int {
	return a + b // as integers
}

type T = int
`

func TestOnlyCommentsMayDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		change []string // of the source: old, new, old, new, ...
		want   string   // the start of the difference
	}{
		"nothing":                      {},
		"a doc comment":                {change: []string{"// Add is the sum.", "// Add returns\n// the sum of a and b.\n//"}},
		"a comment beside code":        {change: []string{" // as integers", ""}},
		"a new comment":                {change: []string{"type T", "// T is an int.\ntype T"}},
		"a comment inside a statement": {change: []string{"a + b", "a + /* the other */ b"}},
		"white space":                  {change: []string{"a + b", "a  +  b", "\ntype", "\n\n\ntype"}},
		"an operator":                  {change: []string{"a + b", "a - b"}, want: `line 5 has "-", and line 5 of the base "+"`},
		"a name":                       {change: []string{"Add(", "Sum("}, want: `line 4 has "Sum"`},
		"an alias that is a type":      {change: []string{"T = int", "T int"}, want: `line 8 has "int"`},
		"code that became a comment":   {change: []string{"type T", "// type T"}, want: `line 8 of the base has "type"`},
		"more code":                    {change: []string{"T = int", "T = int\n\ntype U = int"}, want: `line 10 has "type", which is new`},
		"a directive":                  {change: []string{"// Add is", "//go:noinline\n// Add is"}, want: `line 3 has "//go:noinline"`},
		"the output of an example":     {change: []string{" // as integers", "\n\t// Output: 3"}, want: `line 6 has "// Output: 3"`},
	} {
		t.Run(name, func(t *testing.T) {
			after := strings.NewReplacer(c.change...).Replace(source)
			got, err := difference("p.go", []byte(source), []byte(after))
			if err != nil {
				t.Fatal(err)
			}
			if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
				t.Errorf("difference is %q, want %q", got, c.want)
			}
		})
	}
}

func TestSourceThatCannotBeParsedIsAnError(t *testing.T) {
	if _, err := difference("p.go", []byte(source), []byte("package p\nfunc {")); err == nil {
		t.Error("no error")
	}
}

func TestRunNamesTheFilesThatDiffer(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	do := func(args ...string) {
		t.Helper()
		if _, err := git(root, append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a/comment.go", "a/code.go", "a/gone.go", "b/code.go", "a/text.md"} {
		write(name, source)
	}
	do("init", "-q")
	do("add", ".")
	do("commit", "-q", "-m", "base")
	write("a/comment.go", strings.Replace(source, "is the sum", "returns the sum", 1))
	write("a/code.go", strings.Replace(source, "a + b", "a - b", 1))
	write("b/code.go", strings.Replace(source, "a + b", "a - b", 1))
	write("a/new.go", source)
	write("a/text.md", "# Text")
	if err := os.Remove("a/gone.go"); err != nil {
		t.Fatal(err)
	}

	t.Chdir(filepath.Join(root, "b")) // folders count from the root of the repository
	var out strings.Builder
	same, err := run(&out, "HEAD", []string{"a"})
	if err != nil || same {
		t.Fatalf("same %v, error %v", same, err)
	}
	const want = `a/code.go: line 5 has "-", and line 5 of the base "+"
a/gone.go: removed
a/new.go: added
4 files changed since HEAD: 1 in comments only, 3 in their syntax tree
`
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
	}
	if same, err := run(&out, "HEAD", []string{"a/comment.go"}); err != nil || !same {
		t.Errorf("comments only: same %v, error %v", same, err)
	}
}
