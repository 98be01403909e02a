package plants

// unknownRules are bugs of a daemon that does not know yet whether there are rules.
func unknownRules() []Plant {
	return []Plant{
		{
			Name: "unknown-rules-pass", Breaks: "a daemon that has not been told its rules lets every request pass",
			Edits: []Edit{{"regional/internal/charge/decision.go", "		return d.Policy.Open\n", "		return true\n"}},
		},
		{
			Name: "silence-is-no-rules", Breaks: "a Hello's answer without rules counts as the word that there are none",
			Edits: []Edit{{"regional/internal/session/hello.go", "	if out.GetNoRules() {\n", "	if out.GetRules() == nil {\n"}},
		},
		{
			Name: "none-outranks-rules", Breaks: "a coordinator that has no rules ends those that the region goes by",
			Edits: []Edit{{"regional/internal/policy/policy.go", "	now := p.Load()\n	if now.Set != nil {\n		return\n	}\n", "	now := p.Load()\n"}},
		},
		{
			Name: "state-file-unsummed", Breaks: "a state file counts though its content does not match its checksum",
			Edits: []Edit{{"regional/state.go", `s.Sum != "" && s.Sum != stateSum(data, s.Sum)`, `s.Sum != "" && false`}},
		},
		{
			Name: "newer-state-forgotten", Breaks: "a state file of a newer version is put aside, and the daemon begins without it",
			Edits: []Edit{{"regional/state.go", "err == nil && of.Format > stateFormat {\n", "err == nil && false {\n"}},
		},
		{
			Name: "waits-by-the-earlier-limit", Breaks: "a check that has waited for a share is decided by a limit that was lowered meanwhile",
			Edits: []Edit{{"regional/internal/charge/decision.go", "return a.Key == b.Key && a.Limit == b.Limit && ", "return a.Key == b.Key && "}},
		},
		{
			Name: "brought-limit-forgotten", Breaks: "a share of a key whose requests bring a limit is applied by the larger limit of its rule",
			Edits: []Edit{{"regional/internal/policy/policy.go", "	if r.RequestLimit {\n", "	if false {\n"}},
		},
		{
			Name: "settled-by-no-override", Breaks: "a settlement goes by the rule's own limit though an override names the client's key",
			Edits: []Edit{{"rules/again.go", "		key, is = named()\n", "		_ = named\n"}},
		},
		{
			Name: "settled-by-an-ended-override", Breaks: "a settlement goes by an override that has ended",
			Edits: []Edit{{"rules/again.go", "return o.Pattern == was && o.Holds(nowMS)", "return o.Pattern == was"}},
		},
		{
			Name: "settled-by-other-wildcards", Breaks: "a settlement goes by the rule's own limit though an override with a wildcard came that may match the client",
			Edits: []Edit{{"rules/again.go", "r.wildcards == wildcards && was == \"\"", "was == \"\""}},
		},
	}
}
