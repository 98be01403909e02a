package rules

import (
	"slices"
	"strings"
)

// Attribute is one thing that a request says of itself.
type Attribute struct{ Name, Value string }

// Attributes are what a request says of itself, each name once, in any order. A request
// has a handful of them, and looking them all through costs less than hashing a name;
// what decodes a request needs no map either. The zero value has none. Safe for concurrent
// use as long as nobody writes to it.
type Attributes []Attribute

// AttributesOf are those of a map, sorted by name.
func AttributesOf(m map[string]string) Attributes {
	out := make(Attributes, 0, len(m))
	for name, value := range m {
		out = append(out, Attribute{Name: name, Value: value})
	}
	out.Sort()
	return out
}

// Get is the value of an attribute; "" if the request does not carry it, which rules
// take for the same.
func (a Attributes) Get(name string) string {
	for i := range a {
		if a[i].Name == name {
			return a[i].Value
		}
	}
	return ""
}

// endpoint is the path that names an endpoint: of one that can be read in two ways, the one
// that all spellings share.
func (a Attributes) endpoint() string {
	if path := a.Get(DecodedEndpoint); path != "" {
		return path
	}
	return a.Get(endpointAttribute)
}

// Set gives an attribute a value, in place of the one it had, and returns what then are
// the attributes; they may share memory with a.
func (a Attributes) Set(name, value string) Attributes {
	for i := range a {
		if a[i].Name == name {
			a[i].Value = value
			return a
		}
	}
	return append(a, Attribute{Name: name, Value: value})
}

// Sort orders them by name, in place.
func (a Attributes) Sort() {
	slices.SortFunc(a, func(x, y Attribute) int { return strings.Compare(x.Name, y.Name) })
}

// UnitCost is how much a request consumes of one unit, whole tokens.
type UnitCost struct {
	Unit string
	Cost int64
}

// Costs are what a request consumes of other things than requests, each unit once, in
// any order. The zero value has none. Safe for concurrent use as long as nobody writes
// to it.
type Costs []UnitCost

// CostsOf are those of a map, sorted by unit.
func CostsOf(m map[string]int64) Costs {
	if len(m) == 0 {
		return nil
	}
	out := make(Costs, 0, len(m))
	for unit, cost := range m {
		out = append(out, UnitCost{Unit: unit, Cost: cost})
	}
	out.Sort()
	return out
}

// Of is the cost of a unit; false if the request has none of it.
func (c Costs) Of(unit string) (cost int64, said bool) {
	for i := range c {
		if c[i].Unit == unit {
			return c[i].Cost, true
		}
	}
	return 0, false
}

// Set gives a unit a cost, in place of the one it had, and returns what then are the
// costs; they may share memory with c.
func (c Costs) Set(unit string, cost int64) Costs {
	for i := range c {
		if c[i].Unit == unit {
			c[i].Cost = cost
			return c
		}
	}
	return append(c, UnitCost{Unit: unit, Cost: cost})
}

// Sort orders them by unit, in place.
func (c Costs) Sort() {
	slices.SortFunc(c, func(x, y UnitCost) int { return strings.Compare(x.Unit, y.Unit) })
}
