// Package pinned compares what a test computes with the file in testdata that has it from before: behaviour that
// nobody means to change. `go test ./PACKAGE -run Pinned -update` writes the file; its commit says why it changed.
package pinned

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the pinned values of testdata")

// Compare fails the test if got is not the text of testdata/file, and shows the lines that differ. With -update it
// writes the file.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pinned, now := strings.Split(string(text), "\n"), strings.Split(got, "\n")
	for i := range max(len(pinned), len(now)) {
		if before, after := line(pinned, i), line(now, i); before != after {
			t.Errorf("%s:%d\nnow %s\nwas %s", file, i+1, after, before)
		}
	}
}

// line returns a line, or nothing behind the last one.
func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
