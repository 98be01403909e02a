package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// copied returns a copy of testdata/tree.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/tree")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRenameChangesThePathEverywhere(t *testing.T) {
	root := copied(t)
	changed, err := rename(root, "example.org/you/limits")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"Makefile", "cmd/tool/main.go", "go.mod", "proto/gen.sh", "proto/x.proto", "tools/go.mod"}; !slices.Equal(changed, want) {
		t.Errorf("changed %v, want %v", changed, want)
	}
	for file, wants := range map[string][]string{
		"go.mod":       {"module example.org/you/limits\n", "\texample.com/aliquot v1.0.0\n"},
		"tools/go.mod": {"module example.org/you/limits/tools\n", "require example.org/you/limits v0.0.0\n", "replace example.org/you/limits => ../\n"},
		// Names of packages change, also in texts of tests. Images, and what is no package, stay.
		"cmd/tool/main.go": {
			"\n\t\"example.org/you/limits/limit\"\n", `const modulePath = "example.org/you/limits"`, "`import \"example.org/you/limits/limit\"`",
			`"aliquot/coordinator:local"`, `"aliquot/nowhere"`,
		},
		"proto/x.proto": {`import "aliquot/v1/other.proto";`, `option go_package = "example.org/you/limits/proto/v1;v1";`, "package aliquot.v1;"},
		"proto/gen.sh":  {"module=example.org/you/limits \\", "module=example.org/you/limits,simple"},
		"Makefile":      {"'^example.org/you/limits/internal/e2e'", "docker pull aliquot/regional"},
		"deploy/x.yaml": {"image: aliquot/regional:local"},
	} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q:\n%s", file, want, text)
			}
		}
	}
	again, err := rename(root, "example.org/other")
	if err != nil || len(again) != len(changed) {
		t.Errorf("a second rename changes %v, %v", again, err)
	}
}

func TestRenameRefusesAPathThatCannotBeFetched(t *testing.T) {
	for _, path := range []string{"limits", "you/limits", "https://github.com/you/aliquot", "github.com", "github.com/you/aliquot/"} {
		root := copied(t)
		if changed, err := rename(root, path); err == nil || len(changed) > 0 {
			t.Errorf("%s: changed %v", path, changed)
		}
	}
}
