// Package modes names what decided a request.
package modes

// The modes: what decided, as answers and metrics name it.
const (
	Store      = "store"
	Local      = "local"
	Emergency  = "emergency"
	FailOpen   = "fail_open"
	FailClosed = "fail_closed"
	AllowList  = "allow_list"
	BlockList  = "block_list"
	NoRule     = "no_rule"
	NoRulesYet = "no_rules_yet"
	Unlimited  = "unlimited"
)
