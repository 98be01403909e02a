package rules

import (
	"slices"
	"strings"

	"aliquot/rules/document"
)

// Attribute is one attribute of a request: a name and a value.
type Attribute struct{ Name, Value string }

// Attributes are the attributes of a request, each name once, in any order. A request has a handful
// of them, so a search through all of them costs less than hashing a name, and decoding needs no
// map. The zero value has none. Safe for concurrent use while it is not written to.
type Attributes []Attribute

// AttributesOf converts a map, sorted by name.
func AttributesOf(m map[string]string) Attributes {
	out := make(Attributes, 0, len(m))
	for name, value := range m {
		out = append(out, Attribute{Name: name, Value: value})
	}
	out.Sort()
	return out
}

// Get returns the value of an attribute. It returns "" if the request does not have it, which rules
// do not distinguish.
func (a Attributes) Get(name string) string {
	for i := range a {
		if a[i].Name == name {
			return a[i].Value
		}
	}
	return ""
}

// endpoint returns the path that names an endpoint. If the path can be read in two ways, it returns
// the one that all spellings share.
func (a Attributes) endpoint() string {
	if path := a.Get(DecodedEndpoint); path != "" {
		return path
	}
	return a.Get(document.EndpointAttribute)
}

// Set sets the value of an attribute, in place of an earlier value. It returns the new attributes,
// which may share memory with a.
func (a Attributes) Set(name, value string) Attributes {
	for i := range a {
		if a[i].Name == name {
			a[i].Value = value
			return a
		}
	}
	return append(a, Attribute{Name: name, Value: value})
}

// Sort sorts the attributes by name, in place.
func (a Attributes) Sort() {
	slices.SortFunc(a, func(x, y Attribute) int { return strings.Compare(x.Name, y.Name) })
}

// UnitCost is how much a request consumes of one unit, in whole tokens.
type UnitCost struct {
	Unit string
	Cost int64
}

// Costs are what a request consumes of other units than requests, each unit once, in any order. The
// zero value has none. Safe for concurrent use while it is not written to.
type Costs []UnitCost

// CostsOf converts a map, sorted by unit.
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

// Of returns the cost of a unit. said is false if the request has none.
func (c Costs) Of(unit string) (cost int64, said bool) {
	for i := range c {
		if c[i].Unit == unit {
			return c[i].Cost, true
		}
	}
	return 0, false
}

// Set sets the cost of a unit, in place of an earlier cost. It returns the new costs, which may
// share memory with c.
func (c Costs) Set(unit string, cost int64) Costs {
	for i := range c {
		if c[i].Unit == unit {
			c[i].Cost = cost
			return c
		}
	}
	return append(c, UnitCost{Unit: unit, Cost: cost})
}

// Sort sorts the costs by unit, in place.
func (c Costs) Sort() {
	slices.SortFunc(c, func(x, y UnitCost) int { return strings.Compare(x.Unit, y.Unit) })
}
