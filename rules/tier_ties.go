package rules

import (
	"aliquot/rules/document"
	"aliquot/rules/source"
)

// maxTieSteps caps the comparisons of one file's assignments to some hundred milliseconds.
const maxTieSteps = 20_000_000

// ties refuses two tiers to which a request may belong equally: both name its API key, or their
// patterns for it are equally long.
func (d *draft) ties(doc *document.Document, t *tiers) {
	steps := 0
	shown := make(map[[2]string]bool)
	for i := range t.assigned {
		a := &t.assigned[i]
		for j := i + 1; j < len(t.assigned) && t.assigned[j].strength == a.strength; j++ {
			b := &t.assigned[j]
			if a.strength == exactKey && b.key.Text != a.key.Text {
				break // assignments are sorted by key
			}
			if steps++; steps > maxTieSteps {
				d.Add(doc.Tiers[a.tier].MatchAt, "tiers: there are too many assignments to compare; use fewer API keys and values, and patterns of different lengths")
				return
			}
			pair := [2]string{min(a.tier, b.tier), max(a.tier, b.tier)}
			if a.tier == b.tier || shown[pair] || !a.mayMeet(b, &steps) {
				continue
			}
			shown[pair] = true
			d.tie(doc, a, b)
		}
	}
}

func (d *draft) tie(doc *document.Document, a, b *assignment) {
	at, other := a, b
	if doc.Tiers[b.tier].MatchAt.After(doc.Tiers[a.tier].MatchAt) {
		at, other = b, a
	}
	d.Add(doc.Tiers[at.tier].MatchAt, "tiers %s and %s (line %d) may both get one request, and neither has the longer pattern about API keys; make one of them longer, or give them different values of one attribute",
		source.Shorten(at.tier), source.Shorten(other.tier), doc.Tiers[other.tier].MatchAt.Line)
}

// mayMeet reports whether one request may meet both assignments. It may return true although none
// does. steps counts the comparisons.
func (a *assignment) mayMeet(b *assignment, steps *int) bool {
	if a.strength != 0 && a.strength != exactKey && !a.key.Overlaps(b.key.Pattern) {
		return false
	}
	for i := range a.conditions {
		for j := range b.conditions {
			c, other := &a.conditions[i], &b.conditions[j]
			if c.Attribute != other.Attribute {
				continue
			}
			*steps += len(c.Values) * len(other.Values)
			if *steps <= maxTieSteps && !c.Compatible(other) {
				return false
			}
		}
	}
	return true
}
