package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestWhatOthersCanReadIsNamed: where others may enter the data directory, what they can read in it is.
func TestWhatOthersCanReadIsNamed(t *testing.T) {
	d := &dataDir{path: t.TempDir()}
	for name, mode := range map[string]os.FileMode{"open": 0o644, "own": 0o600} {
		file := filepath.Join(d.path, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	for mode, want := range map[os.FileMode][]string{0o755: {"open"}, 0o750: nil} {
		if err := os.Chmod(d.path, mode); err != nil {
			t.Fatal(err)
		}
		if got := d.readableByOthers(); !slices.Equal(got, want) {
			t.Errorf("in a directory of mode %v: %v, want %v", mode, got, want)
		}
	}
}
