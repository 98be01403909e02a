package rules

import "time"

// maxReasonChars caps the reason and the author of an entry: a sentence and an address.
const maxReasonChars = 512

// listed reads whitelist or blacklist: patterns, and mappings of a pattern with the end of the
// entry, its reason and its author. It calls look with each pattern and its place.
func (d *decoder) listed(f *field, look func(at position, pattern string)) []ListEntry {
	var out []ListEntry
	d.list(f.value, f.name, MaxListed, func(item *node) {
		var e ListEntry
		at, ok := item.at, false
		if item.kind != kindMapping {
			e.Pattern, ok = d.text(item, "a pattern of "+f.name, maxPatternChars)
		} else {
			known := d.noteSchema(&e.Note)
			known["pattern"] = func(p *field) {
				at = p.value.at
				e.Pattern, ok = d.text(p.value, "a pattern of "+f.name, maxPatternChars)
			}
			if d.mapping(item, "an entry of "+f.name, known) && !hasField(item, "pattern") {
				d.add(item.at, "the entry of %s has no pattern; add one, like pattern: \"sk_1\"", f.name)
			}
		}
		if ok {
			look(at, e.Pattern)
			out = append(out, e)
		}
	})
	return out
}

func (d *decoder) allowed(f *field) []ListEntry {
	return d.listed(f, func(at position, pattern string) {
		if keyPattern(pattern).anyKey() {
			d.warn(at, "whitelist %q allows every API key: no rule applies to one", shorten(pattern))
		}
	})
}

func (d *decoder) blocked(f *field) []ListEntry {
	return d.listed(f, func(at position, pattern string) {
		if keyPattern(pattern).anyKey() {
			d.add(at, "blacklist %q would reject every request; name the API keys to block", shorten(pattern))
		}
	})
}

// noteSchema reads until, reason and by into n.
func (d *decoder) noteSchema(n *Note) schema {
	return schema{
		"until":  func(f *field) { n.UntilMS = d.instant(f) },
		"reason": func(f *field) { n.Reason, _ = d.text(f.value, f.name, maxReasonChars) },
		"by":     func(f *field) { n.By, _ = d.text(f.value, f.name, maxReasonChars) },
	}
}

// instant reads a point in time as Unix milliseconds, or 0 if it is invalid.
func (d *decoder) instant(f *field) int64 {
	if !d.is(f.value, kindString, f.name) {
		return 0
	}
	ms, ok := parseInstant(f.value.text)
	if !ok {
		d.add(f.value.at, "%s %q is not a time; write it with date, time and zone, like \"2030-01-31T18:00:00Z\"", f.name, shorten(f.value.text))
	}
	return ms
}

// parseInstant reads RFC 3339 as Unix milliseconds above 0. A part of a millisecond counts as a
// whole one, so that no entry ends early.
func parseInstant(text string) (ms int64, ok bool) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.UnixMilli() <= 0 {
		return 0, false
	}
	return t.Add(time.Millisecond - 1).UnixMilli(), true
}
