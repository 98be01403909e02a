package source

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxSuggestText caps the length of the names that are compared. No known name is longer.
	maxSuggestText = MaxNameChars
	// maxEdits is the largest edit distance at which a known name is suggested.
	maxEdits = 2
	// maxSuggested caps the names that a message lists. The longest mapping of the schema has
	// twenty-three fields.
	maxSuggested = 24
)

// insteadOf returns the end of a sentence about an unknown field: the place where the field belongs, or
// else a suggestion.
func (d *Reader) insteadOf(name string, known []string) string {
	if place := d.placeOf(name); place != "" {
		return "it belongs in " + place
	}
	return DidYouMean(name, known)
}

// DidYouMean returns the end of a sentence about an unknown name: the nearest known name if it is
// near enough, or else the known names.
func DidYouMean(name string, known []string) string {
	best, least := "", maxEdits+1
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
	return KnownHere(known)
}

// Near returns the known name that another name is almost: it differs in case, spaces, hyphens and underscores
// only, or in one letter of a long name. It returns "" for a known name, and if none is near.
func Near(name string, known []string) string {
	if slices.Contains(known, name) || len(name) > maxSuggestText {
		return ""
	}
	for _, k := range known {
		if bare(name) == bare(k) || len(k) >= longName && editDistance(name, k) <= 1 {
			return k
		}
	}
	return ""
}

// longName is the length from which on a name with another letter is more likely a mistake than another name.
const longName = 6

func bare(name string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "", "_", "").Replace(name))
}

// KnownHere lists names, as many as fit into a message.
func KnownHere(known []string) string {
	sorted := slices.Sorted(slices.Values(known))
	if more := len(sorted) - maxSuggested; more > 0 {
		return fmt.Sprintf("known here: %s and %d more", strings.Join(sorted[:maxSuggested], ", "), more)
	}
	return "known here: " + strings.Join(sorted, ", ")
}

// editDistance returns the number of insertions, deletions, substitutions and swaps of neighbours
// that turn a into b, up to maxEdits. A larger distance is maxEdits+1. Only characters whose
// indexes differ by at most maxEdits can correspond, so its time grows with the length of the
// texts, not with its square.
func editDistance(a, b string) int {
	const far = maxEdits + 1
	if max(len(a)-len(b), len(b)-len(a)) > maxEdits {
		return far
	}
	before, last, row := farRow(len(b)), farRow(len(b)), farRow(len(b))
	for j := range min(maxEdits, len(b)) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		from, to := max(1, i-maxEdits), min(len(b), i+maxEdits)
		row[from-1] = far
		if from == 1 {
			row[0] = min(i, far)
		}
		for j := from; j <= to; j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change, far)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// farRow returns a row of distances to the first n characters that are all too far.
func farRow(n int) []int {
	row := make([]int, n+1)
	for j := range row {
		row[j] = maxEdits + 1
	}
	return row
}

// Nearest returns the name that was most likely meant by a text, or "" if none is near it.
func Nearest(text string, names []string) string {
	best, least := "", maxEdits+1
	if len(text) > maxSuggestText {
		return ""
	}
	for _, name := range names {
		if n := editDistance(text, name); n < least {
			best, least = name, n
		}
	}
	return best
}
