// Package document is a rules file as it was written, before anything inherits: its rules, tiers,
// defaults and lists, with the numbers and the words that they may have. It also describes each field
// for people.
package document

import (
	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// decoder reads the nodes of a rules file.
type decoder struct {
	*source.Reader
	regexes pattern.Regexes
}

// PlaceOf returns where in the file a field belongs, or "" if the schema does not have it.
func PlaceOf(name string) string {
	switch name {
	case "capacity", "limit", "refill_rate", "window":
		return "params"
	case "api_key_pattern", "endpoint_regex", "attributes":
		return "match"
	case "until", "reason", "by":
		return "an override or an entry of a list"
	case "after", "most", "within", "for":
		return "cool_down or auto_block"
	case "match":
		return "a rule or a tier"
	case "id", "tier", "override", "replaces", "replaces_in_request":
		return "a rule"
	case "params", "algorithm", "mode", "unit", "enforcement", "placement", "borrow_wait", "on_redis_failure", "on_data_loss", "overrun", "request_limit", "local_cache", "shadow", "key", "cool_down", "auto_block":
		return "a rule, a tier or defaults"
	case "defaults", "tiers", "rules", "whitelist", "blacklist":
		return "the file itself, not indented"
	}
	return ""
}
