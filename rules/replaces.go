package rules

import (
	"slices"
	"strings"

	"aliquot/rules/document"
	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// maxShownCircle caps the ids in a message about a circle.
const maxShownCircle = 6

// resolveReplaces finds the rules that other rules replace.
//
// A rule in shadow, even if only for a part of the keys, replaces only rules in shadow: a trial of
// a rule must not change any answer.
func (d *draft) resolveReplaces(s *Set, texts []*document.Rule) {
	unknown := 0
	var always []replacing
	for i, text := range texts {
		r := s.rules[i]
		for _, ref := range text.Replaces {
			replaced := s.byID[ref.Name]
			switch {
			case ref.Name == r.ID:
				d.Add(ref.At, "%s cannot replace itself; name another rule or remove this", text)
				continue
			case replaced == nil:
				d.unknownRule("replaces", ref, r, s, unknown)
				unknown++
				continue
			}
			r.Replaces = append(r.Replaces, ref.Name)
			if r.ShadowPPM > 0 && replaced.ShadowPPM < document.WholePPM {
				continue
			}
			replaced.replacedBy = append(replaced.replacedBy, int32(r.ordinal))
			if replaced.asksAllOf(r) {
				always = append(always, replacing{text, ref})
			} else if r.Unit != replaced.Unit {
				d.Warn(ref.At, "%s counts %s and replaces rule %s, which counts %s: of a request that matches both only %s are limited", text, r.Unit, ref.Name, replaced.Unit, r.Unit)
			}
		}
	}
	before := d.Count()
	d.circles(s, texts)
	if d.Count() > before {
		return // the circle has to be corrected first
	}
	for _, a := range always {
		d.Add(a.ref.At, "rule %s would never apply: %s replaces it and matches every request that it matches; remove this, that rule, or give %s a condition of its own", a.ref.Name, a.by, a.by)
	}
}

// replacing is one rule that names another.
type replacing struct {
	by  *document.Rule
	ref source.Reference
}

// unknownRule reports an id that no rule has. A search among ten thousand ids for a similar one
// takes milliseconds, so it is made only for problems that can be shown.
func (d *draft) unknownRule(field string, ref source.Reference, by *Rule, s *Set, before int) {
	hint := "; remove it"
	if before < source.MaxProblems && len(s.rules) > 1 {
		others := make([]string, 0, len(s.rules))
		for _, r := range s.rules {
			if r != by {
				others = append(others, r.ID)
			}
		}
		hint = "; " + source.DidYouMean(ref.Name, others)
	}
	d.Add(ref.At, "%s: no rule has the id %q%s", field, source.Shorten(ref.Name), hint)
}

// circles reports rules that replace each other. None of them would apply to a request that matches
// all of them, and it would not be limited.
func (d *draft) circles(s *Set, texts []*document.Rule) {
	const onPath, done = 1, 2
	state := make([]uint8, len(texts))
	var path []string
	var visit func(i int)
	visit = func(i int) {
		state[i] = onPath
		path = append(path, texts[i].ID)
		for _, ref := range texts[i].Replaces {
			next := s.byID[ref.Name]
			switch {
			case next == nil || next.ordinal == i:
			case state[next.ordinal] == onPath:
				circle := append(path[slices.Index(path, ref.Name):len(path):len(path)], ref.Name)
				d.Add(ref.At, "rules replace each other in a circle (%s), so that none would apply; remove this or another of them", arrows(circle))
			case state[next.ordinal] == 0:
				visit(next.ordinal)
			}
		}
		path = path[:len(path)-1]
		state[i] = done
	}
	for i := range texts {
		if state[i] == 0 {
			visit(i)
		}
	}
}

func arrows(ids []string) string {
	if over := len(ids) - maxShownCircle; over > 0 {
		ids = slices.Concat(ids[:maxShownCircle-1], []string{"..."}, ids[len(ids)-1:])
	}
	return strings.Join(ids, " -> ")
}

// asksAllOf reports whether every request to which r applies also meets the conditions of other. It
// finds only the plain case: r states all of those conditions word for word.
func (r *Rule) asksAllOf(other *Rule) bool { return pattern.Implies(r.conditions, other.conditions) }
