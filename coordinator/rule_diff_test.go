package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLongDiffsAreCut(t *testing.T) {
	var before, after strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&before, "  - {id: a%d}\n", i)
		fmt.Fprintf(&after, "  - {id: b%d}\n", i)
	}
	diff, err := unifiedDiff("version 1", "version 2", before.String(), after.String())
	if err != nil || len(diff) > maxDiffBytes+100 || !strings.HasPrefix(diff, "--- version 1\n+++ version 2\n@@ ") {
		t.Fatalf("%d bytes, %v: %.100s", len(diff), err, diff)
	}
	shown := strings.Count(diff, "\n") - 1
	if want := fmt.Sprintf("\n\\ %d lines more\n", 200_003-shown); !strings.HasSuffix(diff, want) {
		t.Errorf("the end %q, want %q", diff[len(diff)-40:], want)
	}
	if diff, err := unifiedDiff("a", "b", "x\n", "x\n"); diff != "" || err != nil {
		t.Errorf("no change: %q, %v", diff, err)
	}
	if diff, err := unifiedDiff("a", "b", strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<20)); err != nil || !strings.HasSuffix(diff, "lines more\n") {
		t.Errorf("one long line: %v, %.200s", err, diff)
	}
}

// The worst two files there are cost seconds, not minutes: four million lines, every
// other one different.
func TestDiffsOfHostileFilesEnd(t *testing.T) {
	began := time.Now()
	_, err := unifiedDiff("a", "b", strings.Repeat("a\nb\n", 1<<20), strings.Repeat("b\nc\n", 1<<20))
	if took := time.Since(began); err != nil || took > 30*time.Second {
		t.Errorf("took %s, %v", took, err)
	}
}
