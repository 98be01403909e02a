package rules

import (
	"slices"
	"strings"
	"time"

	"aliquot/limit"
	"aliquot/rules/document"
	"aliquot/rules/pattern"
)

// ListKind says whether a list decided a request before any rule.
type ListKind uint8

// The values of ListKind. The zero value is None: the rules decide.
const (
	None ListKind = iota
	// Whitelisted requests are allowed and count against no limit.
	Whitelisted
	// Blacklisted requests are denied.
	Blacklisted
)

// String returns "none", "whitelisted" or "blacklisted".
func (k ListKind) String() string {
	switch k {
	case Whitelisted:
		return "whitelisted"
	case Blacklisted:
		return "blacklisted"
	}
	return "none"
}

// Matched is one limit that applies to a request.
type Matched struct {
	Rule *Rule
	// Limit and Window are those of the request's API key, with overrides applied.
	Limit  limit.Limit
	Window time.Duration
	// Unlimited: nothing limits the API key.
	Unlimited bool
	// Override is the override that set them, or nil.
	Override *Override
}

// Match returns every rule that applies at nowMS, Unix milliseconds, to a request with these
// attributes, in the order of the file, or the list that decides instead. A block has precedence
// over an allow, both over the blacklist, and that over the whitelist.
//
// A rule is left out if another rule replaces it whose conditions the request also meets, even if
// that rule is replaced itself. The result overwrites buf and grows it if necessary. If buf is
// large enough and the request meets at most 128 rules, Match allocates nothing. It only reads
// attrs.
func (s *Set) Match(attrs Attributes, nowMS int64, buf []Matched) (ListKind, []Matched) {
	buf = buf[:0]
	apiKey := attrs.Get(document.APIKeyAttribute)
	if list, _, _ := s.listed(apiKey, nowMS); list != None {
		return list, buf
	}
	of := s.subject(attrs)
	buf = s.match(&of, apiKey, nowMS, buf)
	if s.decode(&of) {
		first := len(buf)
		buf = s.match(&of, apiKey, nowMS, buf)
		buf = inOrder(buf, first)
	}
	return None, buf
}

// match appends the rules that apply to a request by one of its paths.
func (s *Set) match(of *subject, apiKey string, nowMS int64, buf []Matched) []Matched {
	var room [roomForFound]int32
	found := s.find(of, room[:0])
	for _, ordinal := range found {
		r := s.rules[ordinal]
		if len(r.replacedBy) > 0 && meets(found, r.replacedBy) {
			continue
		}
		m := Matched{Rule: r, Limit: r.Limit, Window: r.Window, Unlimited: r.Unlimited, Override: r.OverrideFor(apiKey, nowMS)}
		if m.Override != nil {
			m.Limit, m.Window, m.Unlimited = m.Override.Limit, m.Override.Window, m.Override.Unlimited
		}
		buf = append(buf, m)
	}
	return buf
}

// decode sets the other path that the endpoint of a request may stand for. It returns false if
// there is none. A rule that is replaced by one path applies if it applies by the other.
func (s *Set) decode(of *subject) bool {
	path := of.attrs.Get(DecodedEndpoint)
	if path == "" || path == of.path {
		return false
	}
	of.path, of.tiers = path, &s.tiers
	return true
}

// inOrder merges two lists of matched rules. The second list begins at an index.
func inOrder(all []Matched, second int) []Matched {
	if len(all) == second {
		return all
	}
	slices.SortStableFunc(all, func(a, b Matched) int { return a.Rule.ordinal - b.Rule.ordinal })
	return slices.CompactFunc(all, func(a, b Matched) bool { return a.Rule == b.Rule })
}

// roomForFound is how many rules a request may meet before Match allocates. One call to the store
// has a few dozen limits at most.
const roomForFound = 128

// find appends to found the ordinals of all rules whose conditions a request meets, in ascending
// order.
func (s *Set) find(of *subject, found []int32) []int32 {
	for i := range of.attrs {
		name := of.attrs[i].Name
		if under := s.index.attributes[name]; under != nil && under != s.index.tiers {
			found = s.filedUnder(under, of.value(name), of, found)
		}
	}
	if s.index.tiers != nil { // a request that names no tier may also belong to one
		found = s.filedUnder(s.index.tiers, of.tier(), of, found)
	}
	found = s.matching(s.index.always, of, found)
	slices.Sort(found)
	return slices.Compact(found) // a rule that is indexed in several places may be found twice
}

// filedUnder appends the rules that are indexed under the request's value of an attribute and
// match.
func (s *Set) filedUnder(under *attributeIndex, value string, of *subject, found []int32) []int32 {
	found = s.matching(under.exact[value], of, found)
	for _, n := range under.prefixes.Lengths {
		if n > len(value) {
			break
		}
		found = s.matching(under.prefixes.Under[value[:n]], of, found)
	}
	return found
}

// meets reports whether two ascending lists have an ordinal in common.
func meets(few, many []int32) bool {
	if len(few) > len(many) {
		few, many = many, few
	}
	for _, ordinal := range few {
		if _, there := slices.BinarySearch(many, ordinal); there {
			return true
		}
	}
	return false
}

// listed returns the entry of a list that decides for an API key, or nil, and whether it is an
// entry above the file.
func (s *Set) listed(apiKey string, nowMS int64) (kind ListKind, entry *ListEntry, above bool) {
	if e := s.blocks.lists(apiKey, nowMS); e != nil {
		return Blacklisted, e, true
	}
	if e := s.allows.lists(apiKey, nowMS); e != nil {
		return Whitelisted, e, true
	}
	if e := s.blacklist.lists(apiKey, nowMS); e != nil {
		return Blacklisted, e, false
	}
	if e := s.whitelist.lists(apiKey, nowMS); e != nil {
		return Whitelisted, e, false
	}
	return None, nil, false
}

// ByEntry reports whether an entry above the file decides for an API key, whatever the file says.
func (s *Set) ByEntry(apiKey string) bool {
	_, _, above := s.listed(apiKey, 0)
	return above
}

// matching appends the candidates that match.
func (s *Set) matching(candidates []int32, of *subject, found []int32) []int32 {
	for _, ordinal := range candidates {
		if unmet(s.rules[ordinal].conditions, of) == nil {
			found = append(found, ordinal)
		}
	}
	return found
}

// pathOf cuts off the query and the fragment of an endpoint.
func pathOf(endpoint string) string {
	if i := strings.IndexAny(endpoint, "?#"); i >= 0 {
		return endpoint[:i]
	}
	return endpoint
}

// unmet returns the first of the conditions that a request does not meet, or nil if it meets all of
// them.
func unmet(conditions []pattern.Condition, s *subject) *pattern.Condition {
	for i := range conditions {
		c := &conditions[i]
		if !c.Match(s.value(c.Attribute)) {
			return c
		}
	}
	return nil
}
