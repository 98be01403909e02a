package api

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"aliquot/internal/checkwire"
	"aliquot/internal/identity"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// Limits of one check.
const (
	maxAttributes = rules.MaxAttributes
	maxNameBytes  = 64
	maxValueBytes = 4 << 10
	// maxCost is the largest cost in whole requests, so that micro-tokens stay far inside an int64.
	// A cost above a limit's capacity is denied anyway.
	maxCost = 1_000_000_000_000
	// maxUnits is the largest number of units of which one request can have costs.
	maxUnits = 16
	maxBatch = 1000
	// maxMessage has room for a batch of 1,000 requests of the usual size.
	maxMessage = 4 << 20
)

// wireRequest converts a message to plain values. A nil message gives an empty request.
func wireRequest(in *aliquotv1.CheckRequest) checkwire.Request {
	out := checkwire.Request{
		Attributes: rules.AttributesOf(in.GetAttributes()), Namespace: in.GetNamespace(),
		Cost: 1, Costs: rules.CostsOf(in.GetCosts()),
	}
	if in != nil && in.Cost != nil {
		out.Cost = in.GetCost()
	}
	return out
}

// validate converts a request. Its errors name the field but never a value, which may be a secret.
func validate(in checkwire.Request) (charge.Request, error) {
	cost := in.Cost
	switch {
	case cost < 1:
		return charge.Request{}, fmt.Errorf("%w: cost is %d; it must be at least 1, or absent for 1", charge.ErrInvalid, cost)
	case cost > maxCost:
		return charge.Request{}, fmt.Errorf("%w: cost is %d; it must be at most %d", charge.ErrInvalid, cost, int64(maxCost))
	case len(in.Namespace) > maxNameBytes || !validText(in.Valid, in.Namespace):
		return charge.Request{}, fmt.Errorf("%w: namespace must be at most %d bytes of valid UTF-8", charge.ErrInvalid, maxNameBytes)
	case len(in.Attributes) > maxAttributes:
		return charge.Request{}, fmt.Errorf("%w: more than %d attributes", charge.ErrInvalid, maxAttributes)
	}
	for i := range in.Attributes {
		name, value := in.Attributes[i].Name, in.Attributes[i].Value
		switch {
		case name == "" || len(name) > maxNameBytes || !validText(in.Valid, name):
			return charge.Request{}, fmt.Errorf("%w: an attribute's name has %d bytes; it must be 1 to %d bytes of valid UTF-8", charge.ErrInvalid, len(name), maxNameBytes)
		case len(value) > maxValueBytes:
			return charge.Request{}, fmt.Errorf("%w: attribute %q has %d bytes; at most %d are allowed", charge.ErrInvalid, name, len(value), maxValueBytes)
		case !validText(in.Valid, value):
			return charge.Request{}, fmt.Errorf("%w: attribute %q is not valid UTF-8", charge.ErrInvalid, name)
		}
	}
	if err := validateCosts(in.Costs, in.Valid); err != nil {
		return charge.Request{}, err
	}
	return charge.Request{
		Attributes: spelled(in.Attributes), Namespace: in.Namespace,
		Cost: limit.Tokens(cost) * limit.Token, Costs: in.Costs,
	}, nil
}

// spelled returns the attributes with the endpoint in the one form that all its spellings share, as GET /check
// reads it. So a limit on a path holds at every front door. It returns the attributes themselves if the endpoint
// has that form. A caller that says how its servers decode the path is believed.
func spelled(attributes rules.Attributes) rules.Attributes {
	path, permissive, plain := identity.Spelled(attributes.Get(identity.Endpoint))
	if plain {
		return attributes
	}
	out := slices.Clone(attributes).Set(identity.Endpoint, path) // the array has the attributes of other requests too
	if permissive != "" && out.Get(identity.DecodedEndpoint) == "" {
		out = out.Set(identity.DecodedEndpoint, permissive)
	}
	return out
}

// validText reports whether a text is valid UTF-8. known: that was checked before.
func validText(known bool, text string) bool { return known || utf8.ValidString(text) }

// validateCosts checks the request's costs in units other than requests.
func validateCosts(costs rules.Costs, known bool) error {
	if len(costs) > maxUnits {
		return fmt.Errorf("%w: costs of more than %d units", charge.ErrInvalid, maxUnits)
	}
	for i := range costs {
		unit, cost := costs[i].Unit, costs[i].Cost
		switch {
		case unit == "" || len(unit) > maxNameBytes || !validText(known, unit):
			return fmt.Errorf("%w: a unit of costs has %d bytes; it must be 1 to %d bytes of valid UTF-8", charge.ErrInvalid, len(unit), maxNameBytes)
		case unit == rules.UnitRequests:
			return fmt.Errorf("%w: costs names the unit %s; say it as cost", charge.ErrInvalid, unit)
		case cost < 1:
			return fmt.Errorf("%w: the cost of unit %q is %d; it must be at least 1, or absent for none", charge.ErrInvalid, unit, cost)
		case cost > maxCost:
			return fmt.Errorf("%w: the cost of unit %q is %d; it must be at most %d", charge.ErrInvalid, unit, cost, int64(maxCost))
		}
	}
	return nil
}
