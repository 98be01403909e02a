package envoyimport

import (
	"strconv"
	"strings"
)

// span is the values that a node is for, as far as no sibling is taken first.
func (n *node) span() span {
	if prefix, ok := strings.CutSuffix(n.value, "*"); ok {
		return span{prefix, true}
	}
	return span{n.value, n.value == ""}
}

// rank orders siblings by who is taken first: a value, a wildcard, a key alone.
func (n *node) rank() int {
	switch {
	case n.value == "":
		return 2
	case n.span().prefix:
		return 1
	}
	return 0
}

func (n *node) limits() bool { return n.limit != nil }

// title names the node in a message.
func (n *node) title() string {
	if n.value == "" {
		return n.key
	}
	return n.key + " " + strconv.Quote(n.value)
}

// shadowing finds the siblings that are taken before n for some of its values: those of
// a lower rank, and of wildcards the earlier ones. Values that no rule could name are
// passed over.
func shadowing(n *node, siblings []*node) []*node {
	var out []*node
	before := true
	for _, s := range siblings {
		if s == n {
			before = false
			continue
		}
		first := s.rank() < n.rank() || s.rank() == n.rank() && before
		if s.key != n.key || !first || !writable(s.value, maxValueChars) {
			continue
		}
		if a, b := s.span(), n.span(); a.covers(b) || b.covers(a) {
			out = append(out, s)
		}
	}
	return out
}
