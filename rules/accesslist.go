package rules

import (
	"math"
	"strings"

	"aliquot/rules/pattern"
)

// accessList is the whitelist or the blacklist. The zero value lists no key.
type accessList struct {
	entries []ListEntry
	set     pattern.Set
}

func newAccessList(entries []ListEntry) accessList {
	patterns := make([]pattern.Expiring, len(entries))
	for i := range entries {
		patterns[i] = pattern.Expiring{Pattern: pattern.OfKey(entries[i].Pattern), UntilMS: entries[i].UntilMS}
	}
	return accessList{entries: entries, set: pattern.NewSet(patterns)}
}

// lists returns the entry by which an API key is on the list, or nil.
func (l *accessList) lists(apiKey string, nowMS int64) *ListEntry {
	if i := l.set.First(apiKey, nowMS); i >= 0 {
		return &l.entries[i]
	}
	return nil
}

// newEntryList returns a list of entries, which apply until they are removed.
func newEntryList(entries []ListEntry) accessList {
	patterns := make([]pattern.Expiring, len(entries))
	for i := range entries {
		patterns[i] = pattern.Expiring{Pattern: pattern.OfKey(entries[i].Pattern)}
	}
	return accessList{entries: entries, set: pattern.NewSet(patterns)}
}

// covers returns an entry of a list that has, without end, every API key that a condition accepts.
// It finds only the plain case; otherwise it returns nil.
func (l *accessList) covers(c *pattern.Condition) (entry *ListEntry) {
	for i := range c.Values {
		m := &c.Values[i]
		if m.Regex != nil {
			return nil
		}
		// The pattern is matched as a text by the list's patterns. A * of theirs matches a * in it,
		// whatever that one stands for.
		entry = l.lists(m.Text, math.MaxInt64)
		if entry == nil || m.Glob && entry.Pattern != m.Text && strings.Contains(entry.Pattern, "?") {
			return nil
		}
	}
	return entry
}
