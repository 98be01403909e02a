package rules

import (
	"aliquot/rules/document"
	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// contradictions reports conditions that plainly no request can meet. The rule would never apply,
// and the requests that it should limit would not be limited.
func (d *draft) contradictions(at source.Position, what string, conditions []pattern.Condition) {
	for i := range conditions {
		c := &conditions[i]
		if c.Attribute == document.EndpointAttribute && !c.AcceptsPath() {
			d.Add(c.At, "%s can never apply: an endpoint is compared without its query, so nothing matches %s; cut it off at the ? or #", what, c)
		}
		for j := range i {
			if other := &conditions[j]; other.Attribute == c.Attribute && !c.Compatible(other) {
				d.Add(at, "%s can never apply: it asks for %s and for %s; remove one", what, other, c)
			}
		}
	}
}
