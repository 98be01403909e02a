package deploycheck

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// repository is the top of the product's checkout.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "cmd", "coordinator")); err != nil {
		t.Fatalf("%s is not the top of the product: %v", root, err)
	}
	return root
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// buildContext copies what a builder would be sent: the checkout without what
// .dockerignore names.
func buildContext(t *testing.T) string {
	t.Helper()
	root, dir := repository(t), t.TempDir()
	ignored := ignoreMatcher(t, filepath.Join(root, ".dockerignore"))
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || name == "." {
			return err
		}
		skip, err := ignored.MatchesOrParentMatches(filepath.ToSlash(name))
		switch {
		case err != nil:
			return err
		case skip && entry.IsDir():
			return fs.SkipDir
		case skip:
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dir, name), 0o755)
		}
		return copyFile(filepath.Join(dir, name), path)
	})
	if err != nil {
		t.Fatalf("copy the build context: %v", err)
	}
	return dir
}

func ignoreMatcher(t *testing.T, file string) *patternmatcher.PatternMatcher {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if matcher.Exclusions() {
		t.Fatalf("%s has patterns with '!', under which a whole folder cannot be skipped as this test does", file)
	}
	return matcher
}

func copyFile(to, from string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		link, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(link, to)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// TestIgnored: what must not be sent to a builder, and what must.
func TestIgnored(t *testing.T) {
	matcher := ignoreMatcher(t, filepath.Join(repository(t), ".dockerignore"))
	for name, want := range map[string]bool{
		"bin/coordinator": true, ".run/c1/node.json": true, "regional/regional.test": true, "cpu.out": true,
		"go.mod": false, ".git/HEAD": false, "cmd/coordinator/main.go": false, "lua/take.lua": false,
		"deploy/docker/probe/main.go": false, ".dockerignore": false,
	} {
		if got, err := matcher.MatchesOrParentMatches(name); err != nil || got != want {
			t.Errorf("%s: ignored %v (%v), want %v", name, got, err, want)
		}
	}
}
