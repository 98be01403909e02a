package rules

import (
	"aliquot/rules/source"
)

// maxTieSteps caps the comparisons of one file's assignments to some hundred milliseconds.
const maxTieSteps = 20_000_000

// ties refuses two tiers to which a request may belong equally: both name its API key, or their
// patterns for it are equally long.
func (d *decoder) ties(doc *document, t *tiers) {
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
				d.Add(doc.tiers[a.tier].matchAt, "tiers: there are too many assignments to compare; use fewer API keys and values, and patterns of different lengths")
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

func (d *decoder) tie(doc *document, a, b *assignment) {
	at, other := a, b
	if doc.tiers[b.tier].matchAt.After(doc.tiers[a.tier].matchAt) {
		at, other = b, a
	}
	d.Add(doc.tiers[at.tier].matchAt, "tiers %s and %s (line %d) may both get one request, and neither has the longer pattern about API keys; make one of them longer, or give them different values of one attribute",
		source.Shorten(at.tier), source.Shorten(other.tier), doc.tiers[other.tier].matchAt.Line)
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
