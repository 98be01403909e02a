package envoyimport

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"aliquot/rules"
	"aliquot/rules/source"
)

const (
	// domainAttribute carries the domain of a request.
	domainAttribute = "domain"
	// maxAmount is the largest limit of a rules file.
	maxAmount = 1_000_000_000
	// maxValueChars leaves room in a regular expression, in which a character may take
	// two.
	maxValueChars = maxRegexChars / 4
)

// rule is one rule to be written.
type rule struct {
	id       string
	from     *node
	match    []condition // the domain is not among them
	key      []string
	replaces []string
	// inRequest are the rules that are replaced in all descriptors of a request.
	inRequest []string
	limit     uint32
	window    string
	unlimited bool
	shadow    bool
}

// condition is one attribute of a match: a text, or regular expressions of which one is
// enough.
type condition struct {
	attribute, text string
	regexes         []string
}

// converter turns domains into rules, in the order of the files.
type converter struct {
	domain string
	keys   []string // all that the domain's descriptors name, sorted
	ids    ids
	rules  []*rule
	of     map[*node]*rule
	notes  []source.Problem
}

func (c *converter) note(n *node, format string, args ...any) {
	c.notes = append(c.notes, source.Problem{File: n.file, Line: n.line, Column: n.column, Message: fmt.Sprintf(format, args...)})
}

func (c *converter) convert(d *node) {
	keys := make(map[string]bool)
	collectKeys(d, keys)
	c.domain, c.keys = d.value, nil
	for key := range keys {
		if key != domainAttribute && writable(key, source.MaxNameChars) {
			c.keys = append(c.keys, key)
		}
	}
	slices.Sort(c.keys)
	if !writable(d.value, maxRegexChars) {
		c.note(d, "not carried over: the domain is longer than %d characters or has control characters", maxRegexChars)
		return
	}
	from := len(c.rules)
	c.walk(d, nil)
	c.nameReplaced(c.rules[from:])
}

// nameReplaced finds the rules of a domain that limits replace by their names, in whichever descriptor of a
// request they are met. A limit in shadow replaces there what it does not here.
func (c *converter) nameReplaced(all []*rule) {
	for _, r := range all {
		for _, name := range r.from.limit.replaces {
			for _, other := range all {
				switch {
				case other.from.limit.name != name || slices.Contains(r.inRequest, other.id):
				case len(r.inRequest) == rules.MaxReplaces:
					c.note(r.from, "not carried over: replaces %q in rule %s; a rule replaces %d at the most", name, other.id, rules.MaxReplaces)
				case r.shadow && !other.shadow:
					c.note(r.from, "not carried over: replaces %q; a rule in shadow replaces rules in shadow only", name)
				default:
					r.inRequest = append(r.inRequest, other.id)
				}
			}
		}
	}
}

func collectKeys(n *node, into map[string]bool) {
	for _, child := range n.children {
		into[child.key] = true
		collectKeys(child, into)
	}
}

// writable tells whether a text can stand in a rules file.
func writable(text string, most int) bool {
	return utf8.RuneCountInString(text) <= most && !strings.ContainsFunc(text, unicode.IsControl)
}

// step is a node on a path with its siblings, itself among them.
type step struct {
	*node
	siblings []*node
}

// walk adds the rules of everything below a node. Those of siblings come first, so that
// more specific ones know which rules they replace.
func (c *converter) walk(parent *node, path []step) {
	var open []*node
	for _, n := range parent.children {
		if why := c.impossible(n, parent.children, path); why != "" {
			c.note(n, "not carried over: %s", why)
			continue
		}
		c.remarks(n, parent.children)
		open = append(open, n)
		c.reserve(n, append(path[:len(path):len(path)], step{n, parent.children}))
	}
	for _, n := range open {
		below := append(path[:len(path):len(path)], step{n, parent.children})
		c.finish(n, below)
		c.walk(n, below)
	}
}

// impossible says why nothing at or below a node can be a rule; "" if it can.
func (c *converter) impossible(n *node, siblings []*node, path []step) string {
	switch {
	case n.key == domainAttribute:
		return "the attribute domain is the domain's"
	case strings.HasSuffix(n.key, "*") && n.value == "":
		return "an attribute's name cannot be a wildcard"
	case !writable(n.key, source.MaxNameChars), !writable(n.value, maxValueChars):
		return "its key or value is too long for a rules file or has control characters"
	case slices.ContainsFunc(path, func(s step) bool { return s.key == n.key }):
		return fmt.Sprintf("a request has one value of each attribute, and %s is on the path twice", n.key)
	case len(path)+1 > rules.MaxKeyAttributes:
		return fmt.Sprintf("it is the entry number %d of its descriptor, and a key has at most %d attributes", len(path)+1, rules.MaxKeyAttributes)
	case n.key == "endpoint" && strings.ContainsAny(n.value, "?#"):
		return "an endpoint is compared without its query"
	}
	for _, s := range shadowing(n, siblings) {
		if s.span().covers(n.span()) {
			return fmt.Sprintf("no request reaches it there either: %s is taken first", s.title())
		}
	}
	return ""
}

// remarks are about what is carried over but not in full.
func (c *converter) remarks(n *node, siblings []*node) {
	for _, m := range n.metrics {
		c.note(n, "not carried over: %s; metrics are by rule here", m)
	}
	if n.key == "endpoint" {
		c.note(n, "differs: an endpoint counts without its query, and ids in it share a bucket")
	}
	for _, s := range siblings {
		if rest, ok := strings.CutPrefix(n.key, s.key+"_"); ok {
			c.note(n, "differs: that project takes an entry %s with a value that begins with %q for one of this descriptor; here they are two attributes", s.key, rest)
			break
		}
	}
	if n.limit == nil {
		return
	}
	if n.quota {
		c.note(n, "differs: quota_mode is shadow here; the answer has no metadata of it")
	}
	if !n.limit.unlimited && n.limit.requests > maxAmount {
		c.note(n, "differs: %d a unit becomes %d, the most a rule can have", n.limit.requests, maxAmount)
	}
}

// reserve gives a node that limits its rule, without the conditions.
func (c *converter) reserve(n *node, path []step) {
	if !n.limits() {
		return
	}
	r := &rule{
		id: c.ids.of(c.domain, path), from: n, key: []string{}, limit: min(n.limit.requests, maxAmount), window: n.limit.window,
		unlimited: n.limit.unlimited, shadow: (n.shadow || n.quota) && !n.limit.unlimited,
	}
	for _, s := range path {
		if !s.span().prefix || s.share {
			continue // one bucket for all its values
		}
		r.key = append(r.key, s.key)
	}
	c.of[n] = r
	c.rules = append(c.rules, r)
}

// finish gives the rule of a node its conditions and has it replaced where it may be.
func (c *converter) finish(n *node, path []step) {
	r := c.of[n]
	if r == nil {
		return
	}
	on := make(map[string]bool, len(path))
	for i, s := range path {
		on[s.key] = true
		var not []span
		for _, other := range shadowing(s.node, s.siblings) {
			if by := c.of[other]; i == len(path)-1 && by != nil && (r.shadow || !by.shadow) && len(by.replaces) < rules.MaxReplaces {
				by.replaces = append(by.replaces, r.id)
				continue
			}
			not = append(not, other.span())
		}
		r.match = append(r.match, c.asks(n, s.node, not))
	}
	r.match = append(r.match, c.absent(n, on)...)
}

// absent asks that no other key of the domain is there, those of the node's children
// before others: a rule has room for so many.
func (c *converter) absent(n *node, on map[string]bool) []condition {
	children := make(map[string]bool)
	for _, child := range n.children {
		children[child.key] = true
	}
	ordered := slices.Clone(c.keys)
	slices.SortStableFunc(ordered, func(a, b string) int {
		switch {
		case children[a] == children[b]:
			return 0
		case children[a]:
			return -1
		}
		return 1
	})
	ordered = slices.DeleteFunc(ordered, func(key string) bool { return on[key] })
	if room := rules.MaxAttributes - 1 - len(on); len(ordered) > room {
		c.note(n, "differs: applies to requests that have other entries as well, of which there are more than a rule can ask about, such as %s", ordered[room])
		ordered = ordered[:room]
	}
	out := make([]condition, 0, len(ordered))
	for _, key := range slices.Sorted(slices.Values(ordered)) {
		out = append(out, condition{attribute: key})
	}
	return out
}

// asks is what the rule of n asks of the attribute of one node on its path, whose
// values that are not meant are in the spans.
func (c *converter) asks(n, at *node, not []span) condition {
	s := at.span()
	out := condition{attribute: at.key, text: s.text}
	switch {
	case s.prefix && s.text == "":
		out.text = "?*" // no attribute without a value is there
		if len(not) > 0 {
			not = append(not, span{})
		}
	case s.prefix:
		out.text += "*"
	}
	switch {
	case len(not) > 0:
		out.regexes = others(s.text, not)
	case !s.prefix:
		out.regexes = literally(s.text)
	case strings.ContainsAny(s.text, "*?"):
		out.regexes = []string{"(?s)^" + regexp.QuoteMeta(s.text)}
	}
	if len(out.regexes) > rules.MaxValues {
		c.note(n, "differs: applies also to the more specific values of %s, which have limits of their own there: they are too many to exclude", at.key)
		out.regexes = nil
	}
	return out
}

// literally is the regular expression of a text that would be read as a pattern; none
// if it would not.
func literally(text string) []string {
	if !strings.ContainsAny(text, "*?") {
		return nil
	}
	return []string{"^" + regexp.QuoteMeta(text) + "$"}
}
