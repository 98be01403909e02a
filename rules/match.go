package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"aliquot/limit"
)

// ListKind tells whether a list decided a request before any rule.
type ListKind uint8

// The zero value is None: the rules decide.
const (
	None ListKind = iota
	// Whitelisted requests are allowed and count against nothing.
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
	// Limit and Window are those of the request's API key, overrides applied.
	Limit  limit.Limit
	Window time.Duration

	replaced bool
}

// condition asks for a value of one attribute.
type condition struct {
	attribute string
	pattern   pattern
}

// Match finds every rule that applies to a request with these attributes, in the
// order of the file, or the list that decides instead; the blacklist beats the
// whitelist. Not among them are rules that another one replaces whose conditions the
// request meets too, be that one replaced itself or not. The result overwrites buf
// and grows it if need be: with room enough Match allocates nothing. attrs is only
// read.
func (s *Set) Match(attrs map[string]string, buf []Matched) (ListKind, []Matched) {
	buf = buf[:0]
	apiKey := attrs[apiKeyAttribute]
	if s.blacklist.first(apiKey) >= 0 {
		return Blacklisted, buf
	}
	if s.whitelist.first(apiKey) >= 0 {
		return Whitelisted, buf
	}
	path := pathOf(attrs[endpointAttribute])
	for name, value := range attrs {
		under := s.index.attributes[name]
		if under == nil {
			continue
		}
		if name == endpointAttribute {
			value = path
		}
		buf = s.matching(under.exact[value], attrs, path, buf)
		for _, n := range under.prefixes.lengths {
			if n > len(value) {
				break
			}
			buf = s.matching(under.prefixes.under[value[:n]], attrs, path, buf)
		}
	}
	buf = s.matching(s.index.always, attrs, path, buf)
	slices.SortFunc(buf, func(a, b Matched) int { return cmp.Compare(a.Rule.ordinal, b.Rule.ordinal) })
	return None, withoutReplaced(buf)
}

// matching appends those of the candidates that match.
func (s *Set) matching(candidates []int32, attrs map[string]string, path string, buf []Matched) []Matched {
	for _, i := range candidates {
		r := s.rules[i]
		if !r.matches(attrs, path) {
			continue
		}
		l, window := r.limitFor(attrs[apiKeyAttribute])
		buf = append(buf, Matched{Rule: r, Limit: l, Window: window})
	}
	return buf
}

func (r *Rule) matches(attrs map[string]string, path string) bool {
	for i := range r.conditions {
		c := &r.conditions[i]
		value := attrs[c.attribute]
		if c.attribute == endpointAttribute {
			value = path
		}
		if !c.pattern.match(value) {
			return false
		}
	}
	return r.endpoint == nil || r.endpoint.MatchString(path)
}

// pathOf cuts the query and the fragment off an endpoint.
func pathOf(endpoint string) string {
	if i := strings.IndexAny(endpoint, "?#"); i >= 0 {
		return endpoint[:i]
	}
	return endpoint
}
