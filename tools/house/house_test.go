package main

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArrows(t *testing.T) {
	dir := t.TempDir()
	api := write(t, dir, "api.go", "package p\n\nfunc Serve(e *engine) int { return e.decide() + limit }\n")
	engine := write(t, dir, "engine.go", "package p\n\nimport \"net/http\"\n\ntype engine struct{ http.Client }\n\nfunc (e *engine) decide() int { return limit }\n")
	bounds := write(t, dir, "bounds.go", "package p\n\nconst limit = 1\n")
	back := write(t, dir, "bounds.go", "package p\n\nvar limit = Serve(nil)\n")
	for _, c := range []struct {
		name  string
		files []string
		all   int
		up    int
	}{
		{"without a circle", []string{api, engine}, 1, 0},
		{"in a circle", []string{api, engine, back}, 4, 1},
		{"alone", []string{bounds}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := arrowsOf("p", c.files)
			if err != nil {
				t.Fatal(err)
			}
			if got.All != c.all || got.Up != c.up {
				t.Errorf("%d arrows, of which %d run back up, want %d and %d", got.All, got.Up, c.all, c.up)
			}
		})
	}
}

// TestBounds holds the folders at the top and the sizes of the packages of this checkout.
func TestBounds(t *testing.T) {
	f, err := measure("../..")
	if err != nil {
		t.Fatal(err)
	}
	if f.Folders > 16 {
		t.Errorf("there are %d folders at the top, want 16 at most", f.Folders)
	}
	if f.Above > 1 || f.Above == 1 && f.Largest != "budget" {
		t.Errorf("%d packages have more than 3,200 lines, want budget alone; the largest is %s", f.Above, f.Largest)
	}
}
