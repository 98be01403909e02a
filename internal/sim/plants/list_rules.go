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
	}
}
