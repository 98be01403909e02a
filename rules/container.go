package rules

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// container is a mapping or list of a sheet that entries are added to or dropped from.
type container struct {
	n     *node
	of    *field // whose value it is; nil for the file itself and for a rule
	was   []piece
	added []string
}

// piece is one entry as it stands in the text.
type piece struct {
	value    *node
	from, to int
	dropped  bool
}

// container notes how a mapping or list stands in the text, before it is changed.
func (s *sheet) container(n *node, of *field) *container {
	if c := s.containers[n]; c != nil {
		return c
	}
	c := &container{n: n, of: of}
	for i := range n.fields {
		f := &n.fields[i]
		c.was = append(c.was, piece{value: f.value, from: s.offset(f.at), to: s.end(f.value)})
	}
	flow := s.isFlow(n)
	for _, item := range n.items {
		from := s.offset(item.at)
		if !flow {
			from = s.dash(item)
		}
		c.was = append(c.was, piece{value: item, from: from, to: s.end(item)})
	}
	s.containers[n] = c
	s.changed = append(s.changed, c)
	return c
}

// dash is the offset of the sign before an item of a list in block style.
func (s *sheet) dash(item *node) int {
	for i := s.index[item.at]; i >= 0; i-- {
		if s.tokens[i].Type == token.SequenceEntryType {
			return s.starts[i]
		}
	}
	return 0
}

func (s *sheet) addField(n *node, f field) error {
	c := s.container(n, nil)
	c.added = append(c.added, f.inline())
	n.fields = append(slices.Clip(n.fields), f)
	return nil
}

func (s *sheet) addItem(n *node, item *node) error {
	c := s.container(n, nil)
	text := item.inline()
	if !s.isFlow(n) {
		text = "- " + text
	}
	c.added = append(c.added, text)
	n.items = append(slices.Clip(n.items), item)
	return nil
}

// setFields gives a mapping of scalars these fields and no others.
func (s *sheet) setFields(n *node, want []field) error {
	c := s.container(n, nil)
	wanted := mappingNode(want...)
	var kept []field
	for i, f := range n.fields {
		switch by := wanted.field(f.name); {
		case by == nil:
			c.was[i].dropped = true
			continue
		case !by.equal(f.value):
			s.replace(&f, by)
		}
		kept = append(kept, f)
	}
	before := mappingNode(n.fields...)
	n.fields = kept
	for _, f := range want {
		if before.field(f.name) == nil {
			if err := s.addField(n, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop takes out the entries, by index, of the mapping or list that is a field's value.
func (s *sheet) drop(of *field, is func(i int) bool) {
	n := of.value
	var fields []field
	var items []*node
	dropped := make(map[*node]bool)
	for i, f := range n.fields {
		if is(i) {
			dropped[f.value] = true
		} else {
			fields = append(fields, f)
		}
	}
	for i, item := range n.items {
		if is(i) {
			dropped[item] = true
		} else {
			items = append(items, item)
		}
	}
	if len(dropped) == 0 {
		return
	}
	c := s.container(n, of)
	c.of = of
	for i := range c.was {
		c.was[i].dropped = c.was[i].dropped || dropped[c.was[i].value]
	}
	n.fields, n.items = fields, items
}

// dropItems drops entries of a list of the file, if it has that list.
func (s *sheet) dropItems(list string, is func(item *node) bool) {
	if f := s.root.entry(list); f != nil && f.value.kind == kindSequence {
		s.drop(f, func(i int) bool { return is(f.value.items[i]) })
	}
}

func (s *sheet) hasItem(list string, is func(item *node) bool) bool {
	n := s.root.field(list)
	return n != nil && slices.ContainsFunc(n.items, is)
}

// layOut turns a container's changes into splices.
func (s *sheet) layOut(c *container) error {
	if s.isFlow(c.n) {
		s.layOutFlow(c)
		return nil
	}
	return s.layOutBlock(c)
}

// layOutFlow changes what stands in brackets. A dropped entry goes with the comma and
// the space up to the next one; at the end, with those behind the one before.
func (s *sheet) layOutFlow(c *container) {
	last := -1 // the last entry that stays
	for i := range c.was {
		if !c.was[i].dropped {
			last = i
		}
	}
	added := strings.Join(c.added, ", ")
	if last < 0 {
		open := s.offset(c.n.at) + 1
		from, to := open, open
		if len(c.was) > 0 {
			from, to = c.was[0].from, c.was[len(c.was)-1].to
			if added == "" {
				from, to = open, s.endOfFlow(c) // a comma may follow
			}
		}
		s.splices = append(s.splices, splice{from, to, added})
		return
	}
	for i := range c.was[:last] {
		if c.was[i].dropped {
			s.splices = append(s.splices, splice{c.was[i].from, c.was[i+1].from, ""})
		}
	}
	end := c.was[len(c.was)-1].to
	if added != "" {
		added = ", " + added
	}
	if added != "" || end > c.was[last].to {
		s.splices = append(s.splices, splice{c.was[last].to, end, added})
	}
}

// endOfFlow is the offset of the bracket that closes a container.
func (s *sheet) endOfFlow(c *container) int {
	// n has changed; its opening bracket has not.
	return s.closing(c.n) - 1
}

// layOutBlock changes what stands on lines of its own. What is added comes after the
// last entry; comments stay.
func (s *sheet) layOutBlock(c *container) error {
	if len(c.was) == 0 {
		return errNotInPlace
	}
	kept := false
	for i := range c.was {
		p := &c.was[i]
		kept = kept || !p.dropped
		if !p.dropped {
			continue
		}
		if !s.blankBefore(p.from) {
			return errNotInPlace
		}
		s.splices = append(s.splices, splice{s.lines[s.lineAt(p.from)], s.afterLine(p.to - 1), ""})
	}
	end := &c.was[len(c.was)-1]
	if len(c.added) > 0 {
		s.splices = append(s.splices, s.newLines(c, end))
		return nil
	}
	if kept {
		return nil
	}
	if c.of == nil {
		return errNotInPlace
	}
	empty := " []"
	if c.n.kind == kindMapping {
		empty = " {}"
	}
	colon := s.endOfToken(s.index[c.of.at] + 1)
	s.splices = append(s.splices, splice{colon, colon, empty})
	return nil
}

// newLines puts what is added on lines after the last entry, at its indentation.
func (s *sheet) newLines(c *container, end *piece) splice {
	first := c.was[0].from
	indent := strings.Repeat(" ", first-s.lines[s.lineAt(first)])
	at, newline := s.afterLine(end.to-1), s.newline()
	var b strings.Builder
	open := at == len(s.raw) && s.lineAt(at) == s.lineAt(end.to-1) && !end.dropped // the last line has no end
	for _, text := range c.added {
		if open {
			b.WriteString(newline + indent + text)
		} else {
			b.WriteString(indent + text + newline)
		}
	}
	return splice{at, at, b.String()}
}
