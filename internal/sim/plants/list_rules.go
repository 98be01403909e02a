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
			Name: "all-limits-forgotten", Breaks: "a change of rules forgets the limits of keys whose rules are as before",
			Edits: []Edit{{"budget/region_step.go", "if e.Same == nil || !e.Same(k.Rule) {", "if e.Same == nil || !e.Same(k.Rule) || true {"}},
		},
		{
			Name: "changed-limit-kept", Breaks: "the limit that requests told by an earlier version of a rule counts as that of the present one",
			Edits: []Edit{{"regional/internal/policy/former.go", "&& old.SameLimits(r) ", ""}},
		},
		{
			Name: "ended-override-kept", Breaks: "the limit of an override that has ended counts as that of its client's keys",
			Edits: []Edit{{"regional/internal/policy/former.go", " && sameHold(r, before.unixMS, p.unixMS)", ""}},
		},
		{
			Name: "leaders-limit-dropped", Breaks: "a region that was sent a key's limit does not know it when it looks at the key's use again",
			Edits: []Edit{{"budget/region_apply.go", "		h.limit = act.Limit //", "		_ = act.Limit //"}},
		},
		{
			Name: "earlier-limit-kept", Breaks: "a limit in an answer to a report by earlier rules counts as that of the present ones",
			Edits: []Edit{{"budget/region_apply.go", " && !a.oldRules && !a.noGrants {", " && a != nil {"}},
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
