package durable

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestRemoveTemp: what a crash has left of a file is removed, and nothing else.
func TestRemoveTemp(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state.json")
	temp, err := CreateTemp(file)
	if err != nil {
		t.Fatal(err)
	}
	temp.Close()
	others := []string{"state.json", "state.json.bad", "state.json.mine.tmp", "state.json.records.5.tmp", "x.state.json.5.tmp"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveTemp(file); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if err != nil || !slices.Equal(left, others) {
		t.Errorf("left are %v, want %v; %v", left, others, err)
	}
}
