package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSharedProgramsFollowTheirSource: a package that finds programs in the shared folder runs what the source says now,
// and leaves the folder to the next package.
func TestSharedProgramsFollowTheirSource(t *testing.T) {
	module, shared := t.TempDir(), filepath.Join(t.TempDir(), "programs")
	t.Setenv(ProgramsFolder, shared)
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(module, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module m\n")
	for _, says := range []string{"one", "two"} {
		write("cmd/says/main.go", "package main\n\nfunc main() { print(\""+says+"\") }\n")
		dir, remove, err := programs(t.Context(), module)
		if err != nil {
			t.Fatal(err)
		}
		remove()
		if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "says")).CombinedOutput(); err != nil || string(out) != says {
			t.Errorf("the program says %q, and its source %q: %v", out, says, err)
		}
	}
}

// TestSharedProgramsNeedAnAbsoluteFolder: a relative one would be another folder for each package.
func TestSharedProgramsNeedAnAbsoluteFolder(t *testing.T) {
	t.Setenv(ProgramsFolder, "bin")
	if _, _, err := programs(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "absolute path") {
		t.Errorf("%v", err)
	}
}
