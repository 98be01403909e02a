package identity

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// claimSource before a name means a claim of the bearer token instead of a header.
	claimSource = "jwt:"
	// costsOf before a unit, in place of an attribute, means what the request consumes of the unit.
	costsOf = "costs."
	// maxNameBytes is the longest name of an attribute or a unit, and maxMappings the largest
	// number of them. The daemons refuse more.
	maxNameBytes = 64
	maxMappings  = 32
)

// Cost is the consumption of a unit by a request, above 0.
type Cost struct {
	Unit string
	Cost int64
}

// Mapped is the result of Config.AttributeHeaders. The zero value is empty.
type Mapped struct {
	// Attributes and Costs are sorted by their names.
	Attributes []Attribute
	Costs      []Cost
}

// mapping takes an attribute, or the cost of a unit, from a header or a claim.
type mapping struct {
	header header // without a name: claim is the source
	claim  string
	name   string // of the attribute or the unit
	cost   bool
}

// parseMappings parses texts of the form NAME=ATTRIBUTE, and sorts the mappings by the names that
// they set.
func parseMappings(texts []string) ([]mapping, error) {
	if len(texts) > maxMappings {
		return nil, fmt.Errorf("%d attribute headers; at most %d are allowed", len(texts), maxMappings)
	}
	out := make([]mapping, 0, len(texts))
	for _, text := range texts {
		m, err := parseMapping(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o mapping) bool { return o.name == m.name && o.cost == m.cost }) {
			return nil, fmt.Errorf("%q: another one sets the same; remove one", text)
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b mapping) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

func parseMapping(text string) (m mapping, err error) {
	from, to, _ := strings.Cut(text, "=")
	claim, isClaim := strings.CutPrefix(from, claimSource)
	unit, isCost := strings.CutPrefix(to, costsOf)
	m = mapping{claim: claim, name: to, cost: isCost}
	if isCost {
		m.name = unit
	}
	if !isClaim {
		m.header, m.claim = headerOf(from), ""
	}
	switch {
	case isClaim && claim == "" || !isClaim && !isToken(from) || m.name == "":
		return m, fmt.Errorf("%q: write it like X-Tier=tier, X-Tokens=costs.tokens or jwt:plan=tier", text)
	case len(m.name) > maxNameBytes || !utf8.ValidString(m.name):
		return m, fmt.Errorf("%q: a name has at most %d bytes of UTF-8", text, maxNameBytes)
	case !isCost && slices.Contains([]string{APIKey, User, IP, Endpoint, Method}, m.name):
		return m, fmt.Errorf("%q: the attribute %s has its own setting, or none: the API key is found as --api-key-from says, the user as --user-header says", text, m.name)
	case isCost && m.name == "requests":
		return m, fmt.Errorf("%q: requests are the cost itself, which the query parameter cost says", text)
	}
	return m, nil
}

// value returns the value that the request has, or "".
func (m *mapping) value(h http.Header) (string, error) {
	if m.claim == "" {
		return m.header.one(h)
	}
	token, err := bearer(h)
	if err != nil {
		return "", err
	}
	return claim(token, m.claim), nil
}

// String names the source of the value, for an error.
func (m *mapping) String() string {
	if m.claim == "" {
		return "header " + m.header.name
	}
	return "claim " + m.claim
}

// Mapped returns what Config.AttributeHeaders asks for. For a peer that is not a trusted proxy it
// returns nothing. Errors wrap ErrInvalid.
func (r *Rules) Mapped(of Request) (out Mapped, err error) {
	if len(r.mappings) == 0 || !r.TrustsPeer(of.Peer) {
		return out, nil
	}
	for i := range r.mappings {
		m := &r.mappings[i]
		value, err := m.value(of.Header)
		switch {
		case err != nil:
			return out, err
		case value == "":
		case m.cost:
			cost, err := strconv.ParseInt(value, 10, 64)
			if err != nil || cost < 1 {
				return out, fmt.Errorf("%w: the %s is the cost of the unit %s; send a whole number of at least 1, or none", ErrInvalid, m, m.name)
			}
			out.Costs = append(out.Costs, Cost{m.name, cost})
		case len(value) > maxValueBytes || !utf8.ValidString(value):
			return out, fmt.Errorf("%w: the %s has %d bytes; at most %d of UTF-8 are allowed", ErrInvalid, m, len(value), maxValueBytes)
		default:
			out.Attributes = append(out.Attributes, Attribute{m.name, value})
		}
	}
	return out, nil
}

// Unbelieved returns the name of a header in h that counts only from a trusted proxy; empty if
// there is none.
func (r *Rules) Unbelieved(h http.Header) string {
	for _, name := range [...]header{{forwardedFor, forwardedFor}, r.user} {
		if name.name != "" && len(h[name.key]) > 0 {
			return name.name
		}
	}
	for i := range r.mappings {
		if m := &r.mappings[i]; m.claim == "" && len(h[m.header.key]) > 0 {
			return m.header.name
		}
	}
	return ""
}
