package rules

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// ErrNotThere means that what an edit was to change is not in the file.
var ErrNotThere = errors.New("not in the rules")

// ErrBadEdit means that what an edit was to write makes no sense in any file.
var ErrBadEdit = errors.New("cannot be written into rules")

// The edits below change the text of a rules file in one place and leave every other
// byte as it is, comments and line ends included. They read the file before and
// afterwards: an invalid file, and one that the edit would make invalid, is an
// *Error; a wrong argument is ErrBadEdit or ErrNotThere; a file that says its lists in
// a way that cannot be changed in place is an error of its own. The file given is
// never modified. Entries that do not hold any more at nowMS, Unix milliseconds, go
// with every edit. Equal arguments give equal results.

// Block puts an entry on the blacklist and takes its pattern off the whitelist. An
// entry of the same pattern is replaced.
func Block(yaml []byte, e ListEntry, nowMS int64) ([]byte, error) {
	return listPattern(yaml, "blacklist", "whitelist", e, nowMS)
}

// Allow puts an entry on the whitelist and takes its pattern off the blacklist, which
// would be stronger. An entry of the same pattern is replaced.
func Allow(yaml []byte, e ListEntry, nowMS int64) ([]byte, error) {
	return listPattern(yaml, "whitelist", "blacklist", e, nowMS)
}

func listPattern(yaml []byte, on, off string, e ListEntry, nowMS int64) ([]byte, error) {
	note, err := noteNodes(e.Note, nowMS)
	if err != nil {
		return nil, err
	}
	return edit(yaml, nowMS, e.Pattern, func(s *sheet) error {
		s.dropItems(on, func(item *node) bool { return patternOf(item) == e.Pattern })
		s.dropItems(off, func(item *node) bool { return patternOf(item) == e.Pattern })
		entry := textNode(e.Pattern)
		if len(note) > 0 {
			entry = mappingNode(append([]field{{name: "pattern", value: entry}}, note...)...)
		}
		if list := s.root.field(on); list != nil {
			return s.addItem(list, entry)
		}
		return s.addField(s.root, field{name: on, value: &node{kind: kindSequence, items: []*node{entry}}})
	})
}

// Unlist takes a pattern off both lists; ErrNotThere if it is on neither.
func Unlist(yaml []byte, pattern string, nowMS int64) ([]byte, error) {
	return edit(yaml, nowMS, pattern, func(s *sheet) error {
		is := func(item *node) bool { return patternOf(item) == pattern }
		if !s.hasItem("whitelist", is) && !s.hasItem("blacklist", is) {
			return fmt.Errorf("%w: %q is on no list", ErrNotThere, shorten(pattern))
		}
		s.dropItems("whitelist", is)
		s.dropItems("blacklist", is)
		return nil
	})
}

// SetOverride gives the API keys of a pattern a limit of their own under one rule; an
// override of the same pattern is replaced. ErrNotThere if there is no such rule.
func SetOverride(yaml []byte, ruleID, pattern string, p ParamsText, note Note, nowMS int64) ([]byte, error) {
	stated, err := p.fields()
	if err != nil {
		return nil, err
	}
	notes, err := noteNodes(note, nowMS)
	if err != nil {
		return nil, err
	}
	value := mappingNode(append(stated, notes...)...)
	return edit(yaml, nowMS, pattern, func(s *sheet) error {
		rule, err := s.rule(ruleID)
		if err != nil {
			return err
		}
		overrides := rule.field("override")
		switch {
		case overrides == nil:
			return s.addField(rule, field{name: "override", value: mappingNode(field{name: pattern, value: value})})
		case overrides.field(pattern) == nil:
			return s.addField(overrides, field{name: pattern, value: value})
		}
		return s.setFields(overrides.field(pattern), value.fields)
	})
}

// RemoveOverride takes an override away; ErrNotThere if there is no such rule, or it
// has none of that pattern.
func RemoveOverride(yaml []byte, ruleID, pattern string, nowMS int64) ([]byte, error) {
	return edit(yaml, nowMS, pattern, func(s *sheet) error {
		rule, err := s.rule(ruleID)
		if err != nil {
			return err
		}
		overrides := rule.field("override")
		if overrides == nil || overrides.field(pattern) == nil {
			return fmt.Errorf("%w: rule %s has no override %q", ErrNotThere, ruleID, shorten(pattern))
		}
		s.drop(rule.entry("override"), func(i int) bool { return overrides.fields[i].name == pattern })
		return nil
	})
}

func patternOf(item *node) string {
	if item.kind == kindMapping {
		if p := item.field("pattern"); p != nil {
			return p.text
		}
	}
	return item.text
}

// endOf is until when an entry of a list or an override holds, Unix milliseconds.
func endOf(n *node) int64 {
	if n.kind == kindMapping {
		if until := n.field("until"); until != nil {
			if ms, ok := parseInstant(until.text); ok {
				return ms
			}
		}
	}
	return math.MaxInt64
}

// edit makes one change of a file, and drops what has ended. Name is the pattern that it
// is about.
func edit(yaml []byte, nowMS int64, name string, change func(s *sheet) error) ([]byte, error) {
	if !utf8.ValidString(name) {
		return nil, fmt.Errorf("%w: %q is not UTF-8", ErrBadEdit, shorten(name))
	}
	s, err := openSheet(yaml)
	if err != nil {
		return nil, err
	}
	if err := change(s); err != nil {
		return nil, err
	}
	ended := func(n *node) bool { return endOf(n) <= nowMS }
	s.dropItems("whitelist", ended)
	s.dropItems("blacklist", ended)
	if rules := s.root.field("rules"); rules != nil {
		for _, rule := range rules.items {
			if overrides := rule.field("override"); overrides != nil {
				s.drop(rule.entry("override"), func(i int) bool { return ended(overrides.fields[i].value) })
			}
		}
	}
	text, err := s.write()
	if err != nil {
		return nil, err
	}
	if _, _, err := Parse("rules", text); err != nil {
		return nil, err
	}
	return text, nil
}

// rule finds a rule by its id.
func (s *sheet) rule(id string) (*node, error) {
	var ids []string
	for _, rule := range s.root.field("rules").items {
		of := rule.field("id").text
		if of == id {
			return rule, nil
		}
		ids = append(ids, of)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: there is no rule %q", ErrNotThere, shorten(id))
	}
	return nil, fmt.Errorf("%w: there is no rule %q; %s", ErrNotThere, shorten(id), didYouMean(id, slices.Clip(ids)))
}
