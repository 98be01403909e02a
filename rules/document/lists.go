package document

import (
	"time"

	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// MaxReasonChars caps the reason and the author of an entry: a sentence and an address.
const MaxReasonChars = 512

// listed reads whitelist or blacklist: patterns, and mappings of a pattern with the end of the
// entry, its reason and its author. It calls look with each pattern and its place.
func (d *decoder) listed(f *source.Field, look func(at source.Position, text string)) []ListEntry {
	var out []ListEntry
	d.List(f.Value, f.Name, MaxListed, func(item *source.Node) {
		var e ListEntry
		at, ok := item.At, false
		if item.Kind != source.KindMapping {
			e.Pattern, ok = d.Text(item, "a pattern of "+f.Name, pattern.MaxChars)
		} else {
			known := d.noteSchema(&e.Note)
			known["pattern"] = func(p *source.Field) {
				at = p.Value.At
				e.Pattern, ok = d.Text(p.Value, "a pattern of "+f.Name, pattern.MaxChars)
			}
			if d.Mapping(item, "an entry of "+f.Name, known) && !hasField(item, "pattern") {
				d.Add(item.At, "the entry of %s has no pattern; add one, like pattern: \"sk_1\"", f.Name)
			}
		}
		if ok {
			look(at, e.Pattern)
			out = append(out, e)
		}
	})
	return out
}

func (d *decoder) allowed(f *source.Field) []ListEntry {
	return d.listed(f, func(at source.Position, text string) {
		if pattern.OfKey(text).AnyKey() {
			d.Warn(at, "whitelist %q allows every API key: no rule applies to one", source.Shorten(text))
		}
	})
}

func (d *decoder) blocked(f *source.Field) []ListEntry {
	return d.listed(f, func(at source.Position, text string) {
		if pattern.OfKey(text).AnyKey() {
			d.Add(at, "blacklist %q would reject every request; name the API keys to block", source.Shorten(text))
		}
	})
}

// noteSchema reads until, reason and by into n.
func (d *decoder) noteSchema(n *Note) source.Schema {
	return source.Schema{
		"until":  func(f *source.Field) { n.UntilMS = d.instant(f) },
		"reason": func(f *source.Field) { n.Reason, _ = d.Text(f.Value, f.Name, MaxReasonChars) },
		"by":     func(f *source.Field) { n.By, _ = d.Text(f.Value, f.Name, MaxReasonChars) },
	}
}

// instant reads a point in time as Unix milliseconds, or 0 if it is invalid.
func (d *decoder) instant(f *source.Field) int64 {
	if !d.Is(f.Value, source.KindString, f.Name) {
		return 0
	}
	ms, ok := parseInstant(f.Value.Text)
	if !ok {
		d.Add(f.Value.At, "%s %q is not a time; write it with date, time and zone, like \"2030-01-31T18:00:00Z\"", f.Name, source.Shorten(f.Value.Text))
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

// Note is the end of an entry, the reason for it and its author.
type Note struct {
	// UntilMS is the first instant, in Unix milliseconds, at which the entry no longer applies; 0
	// if it has no end.
	UntilMS int64  `json:"until_ms,omitempty"`
	Reason  string `json:"reason,omitempty"`
	By      string `json:"by,omitempty"`
}

// Holds reports whether the entry applies at nowMS, Unix milliseconds.
func (n *Note) Holds(nowMS int64) bool { return n.UntilMS == 0 || nowMS < n.UntilMS }

// ListEntry is one entry of the whitelist or the blacklist.
type ListEntry struct {
	Pattern string
	Note
}
