package coordinator

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	clusterstate "aliquot/cluster/state"
)

const (
	// diffContext is the number of unchanged lines around a change.
	diffContext = 3
	// maxDiffBytes bounds a diff. Nobody reads more of one change.
	maxDiffBytes = 64 << 10
	// maxDiffLines bounds the lines of a text that is compared: an answer waits for its diff, and the time
	// grows faster than the lines. Files of ten thousand rules are below it.
	maxDiffLines = 150_000
)

// diffOf returns what a version changed, as a unified diff; "" if it changed nothing or its base is not
// kept.
func diffOf(v, base clusterstate.RuleVersion) (string, error) {
	if base.Version == 0 {
		return "", nil
	}
	before, err := base.Text()
	if err != nil {
		return "", err
	}
	after, err := v.Text()
	if err != nil {
		return "", err
	}
	return unifiedDiff(versionName(base.Version), versionName(v.Version), before, after)
}

func versionName(version uint64) string { return fmt.Sprintf("version %d", version) }

// unifiedDiff returns the difference of two texts. A diff that is too long is cut at the end of a line.
// Texts with too many lines differ as a whole.
func unifiedDiff(from, to, before, after string) (string, error) {
	diff, err := udiff.ToUnified(from, to, before, changes(before, after), diffContext)
	if err != nil {
		return "", fmt.Errorf("compare %s with %s: %w", from, to, err)
	}
	if len(diff) <= maxDiffBytes {
		return diff, nil
	}
	shown := diff[:strings.LastIndexByte(diff[:maxDiffBytes], '\n')+1]
	rest := strings.Count(diff[len(shown):], "\n")
	return fmt.Sprintf("%s\\ %d lines more\n", shown, rest), nil
}

// changes returns the edits that turn before into after.
func changes(before, after string) []udiff.Edit {
	switch {
	case before == after:
		return nil
	case max(strings.Count(before, "\n"), strings.Count(after, "\n")) > maxDiffLines:
		return []udiff.Edit{{Start: 0, End: len(before), New: after}}
	}
	return udiff.Lines(before, after)
}
