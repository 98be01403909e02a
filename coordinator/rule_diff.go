package coordinator

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	clusterstate "aliquot/cluster/state"
)

const (
	// diffContext is the usual number of unchanged lines around a change.
	diffContext = 3
	// maxDiffBytes is more than anyone reads of one change.
	maxDiffBytes = 64 << 10
	// maxDiffLines, of either text, are compared: a change is answered only when its diff
	// is made, and time grows faster than lines. Files of ten thousand rules are below it.
	maxDiffLines = 150_000
)

// diffOf is what a version changed, as a unified diff; empty if it changed nothing or
// what it replaced is not kept.
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

// unifiedDiff is cut at a line's end where it is too long. Texts that are too long to be
// compared differ as a whole.
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

// changes are the edits that make one text of the other.
func changes(before, after string) []udiff.Edit {
	switch {
	case before == after:
		return nil
	case max(strings.Count(before, "\n"), strings.Count(after, "\n")) > maxDiffLines:
		return []udiff.Edit{{Start: 0, End: len(before), New: after}}
	}
	return udiff.Lines(before, after)
}
