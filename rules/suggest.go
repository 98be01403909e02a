package rules

import (
	"fmt"
	"slices"
)

// maxSuggestText bounds the names that are compared: no known name is longer.
const maxSuggestText = 32

// didYouMean ends a sentence about an unknown name: with the nearest known one if
// it is near enough to be meant, else with all of them.
func didYouMean(name string, known []string) string {
	best, least := "", 3
	if len(name) <= maxSuggestText {
		for _, k := range known {
			if d := editDistance(name, k); d < least && d*2 <= len(k) {
				best, least = k, d
			}
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	sorted := slices.Sorted(slices.Values(known))
	return "known here: " + join(sorted)
}

func join(names []string) string {
	out := ""
	for i, n := range names {
		if i > 0 {
			out += ", "
		}
		out += n
	}
	return out
}

// editDistance counts the insertions, deletions, substitutions and swaps of
// neighbours that turn a into b.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
