package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAServiceInAnotherModule builds the service of README.md, whose module finds this one by the
// replace line there. Nothing is fetched.
func TestAServiceInAnotherModule(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, block := range map[string]string{"go.mod": "```\nmodule ", "main.go": "```go\npackage "} {
		_, text, found := strings.Cut(string(page), block)
		text, _, closed := strings.Cut(text, "```")
		if !found || !closed {
			t.Fatalf("README.md has no block that begins %q", block)
		}
		_, first, _ := strings.Cut(block, "\n")
		text = regexp.MustCompile(`=> \S+`).ReplaceAllLiteralString(first+text, "=> "+root)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", filepath.Join(dir, "shop"), ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
