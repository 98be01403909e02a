package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"aliquot/cluster"
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

// TestDiffsOfHostileFilesEnd: what would take long to compare is not compared.
func TestDiffsOfHostileFilesEnd(t *testing.T) {
	before, after := strings.Repeat("a\nb\n", 1<<20), strings.Repeat("b\nc\n", 1<<20)
	if edits := changes(before, after); len(edits) != 1 || edits[0].New != after || edits[0].End != len(before) {
		t.Errorf("%d edits", len(edits))
	}
	diff, err := unifiedDiff("a", "b", before, after)
	if err != nil || !strings.HasSuffix(diff, "lines more\n") {
		t.Errorf("%.100s, %v", diff, err)
	}
	if edits := changes(before, before); len(edits) != 0 {
		t.Errorf("%d edits of the same text", len(edits))
	}
}

// TestDiffsOfLargeFiles that differ here and there are exact.
func TestDiffsOfLargeFiles(t *testing.T) {
	var before strings.Builder
	for i := range maxDiffLines {
		fmt.Fprintf(&before, "%d\n", i)
	}
	after := strings.Replace(before.String(), "\n70000\n", "\nx\n", 1)
	diff, err := unifiedDiff("a", "b", before.String(), after)
	if err != nil || !strings.Contains(diff, "\n-70000\n+x\n") || strings.Count(diff, "\n") != 11 {
		t.Errorf("%v: %.300s", err, diff)
	}
}

// A change waits for the one before it, and is not made if its time is over meanwhile.
func TestChangesTakeTurns(t *testing.T) {
	t.Parallel()
	changes := cluster.NewTurns()
	done, err := changes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := changes.Begin(over); !errors.Is(err, cluster.ErrNotProposed) {
		t.Errorf("while another change is made: %v", err)
	}
	done()
	for range 20 { // a turn that is free is no turn after the caller's time
		if _, err := changes.Begin(over); !errors.Is(err, cluster.ErrNotProposed) {
			t.Fatalf("after the caller's time: %v", err)
		}
	}
	if done, err = changes.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	done()
}
