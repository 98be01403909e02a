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
	// Override is the override that set them, nil if none did.
	Override *Override

	replaced bool
}

// Match finds every rule that applies at nowMS, Unix milliseconds, to a request with
// these attributes, in the order of the file, or the list that decides instead; the
// blacklist beats the whitelist. Not among them are rules that another one replaces
// whose conditions the request meets too, be that one replaced itself or not. The
// result overwrites buf and grows it if need be: with room enough Match allocates
// nothing. attrs is only read.
func (s *Set) Match(attrs map[string]string, nowMS int64, buf []Matched) (ListKind, []Matched) {
	buf = buf[:0]
	if list, _ := s.listed(attrs[apiKeyAttribute], nowMS); list != None {
		return list, buf
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
	// A rule that is filed in several places may have been found in two of them.
	buf = slices.CompactFunc(buf, func(a, b Matched) bool { return a.Rule == b.Rule })
	buf = withoutReplaced(buf)
	limits(buf, attrs[apiKeyAttribute], nowMS)
	return None, buf
}

// listed finds the entry of a list that decides for an API key, nil if none does.
func (s *Set) listed(apiKey string, nowMS int64) (ListKind, *ListEntry) {
	if e := s.blacklist.lists(apiKey, nowMS); e != nil {
		return Blacklisted, e
	}
	if e := s.whitelist.lists(apiKey, nowMS); e != nil {
		return Whitelisted, e
	}
	return None, nil
}

// matching appends those of the candidates that match.
func (s *Set) matching(candidates []int32, attrs map[string]string, path string, buf []Matched) []Matched {
	for _, i := range candidates {
		if r := s.rules[i]; r.unmet(attrs, path) == nil {
			buf = append(buf, Matched{Rule: r})
		}
	}
	return buf
}

// limits fills in the limits of an API key.
func limits(matched []Matched, apiKey string, nowMS int64) {
	for i := range matched {
		m := &matched[i]
		m.Limit, m.Window = m.Rule.Limit, m.Rule.Window
		if m.Override = m.Rule.OverrideFor(apiKey, nowMS); m.Override != nil {
			m.Limit, m.Window = m.Override.Limit, m.Override.Window
		}
	}
}

// pathOf cuts the query and the fragment off an endpoint.
func pathOf(endpoint string) string {
	if i := strings.IndexAny(endpoint, "?#"); i >= 0 {
		return endpoint[:i]
	}
	return endpoint
}
