package plants

// changedRules are bugs in what becomes of cold records when the limit of their rule changes.
func changedRules() []Plant {
	const (
		settle = "limit/settle.go"
		change = "internal/entitlement/change.go"
		former = "regional/internal/policy/former.go"
	)
	return []Plant{
		{
			Name: "slowed-rule-refills", Breaks: "a record that expired by the rate before the present one counts as full",
			Edits: []Edit{{settle, "if tokens, carry := v.expired(now); tokens < fresh.Tokens {", "if tokens, carry := v.expired(now); false && tokens < fresh.Tokens {"}},
		},
		{
			Name: "raised-rate-counts-back", Breaks: "a record earns by a raised rate for the time before it was raised",
			Edits: []Edit{{settle, "			low.Rate = low.Rate.Min(v.Slow)\n		}\n		from = min(since, now)", "			low.Rate = low.Rate.Min(low.Rate)\n		}\n		from = min(since, now)"}},
		},
		{
			Name: "hot-key-earns-back", Breaks: "a hot key that was not used in a slow time has earned by the present rate all the while",
			Edits: []Edit{{settle, "start, low.Rate = max(start, v.RuleSince), low.Rate.Min(f.slow)", "start = max(start, v.RuleSince)"}},
		},
		{
			Name: "slow-rate-of-another-share", Breaks: "a hot record earned in a slow time by a share that it did not have",
			Edits: []Edit{{settle, "if phase != v.Phase || v.Hot && r.Gen != v.Gen || !v.Hot && phase == Limbo {", "if false {"}},
		},
		{
			Name: "slow-rate-of-the-floor", Breaks: "a hot key that gave its rate away earned in a slow time by its floor",
			Edits: []Edit{{change, "		part = r.Share\n", ""}},
		},
		{
			Name: "slow-rate-of-limbo", Breaks: "a hot key that gave its rate away earned in a slow time by its floor, while the region was in limbo",
			Edits: []Edit{{change, "		part = part.Min(r.Share)\n", ""}},
		},
		{
			Name: "memory-earns-back", Breaks: "what a daemon remembers of a bucket has earned in a slow time by the present rate",
			Edits: []Edit{{"internal/recall/table.go", "until, rate = min(until, c.SlowUntil), min(rate, former)", "until = min(until, c.SlowUntil)"}},
		},
		{
			Name: "grown-window-forgets", Breaks: "a record that a shorter window kept counts as no use in a longer one",
			Edits: []Edit{{settle, "return forgotten(v, now) //", "return nil //"}},
		},
		{
			Name: "second-change-proves", Breaks: "after two changes of a limit an expired record counts as one of the later one",
			Edits: []Edit{{change, "if next.Cap = min(c.Cap+earned, next.Cap); raised", "if _ = earned; raised"}},
		},
		{
			Name: "second-change-earns-late", Breaks: "between two changes of a limit a record earns in the second in which its store may go by either",
			Edits: []Edit{{change, "earnedBetween(c.At.Add(LateUse), at", "earnedBetween(c.At, at"}},
		},
		{
			Name: "second-change-above-the-lower", Breaks: "an expired record holds more than the lower capacity after a limit was lowered and raised again",
			Edits: []Edit{{change, "min(c.Cap+earned, next.Cap)", "min(c.Cap+earned, limit.MaxTokens-1)"}},
		},
		{
			Name: "second-change-earns-by-the-limit", Breaks: "between two changes an elastic limit's record earns by the whole limit's rate",
			Edits: []Edit{{change, "		part = floor.Rate\n", ""}},
		},
		{
			Name: "second-change-earns-by-the-burst", Breaks: "between two changes a record earns by its floor's part of the burst, not of the rate",
			Edits: []Edit{{change, "case floor.Rate < floor.Burst:", "case false:"}},
		},
		{
			Name: "change-forgotten-early", Breaks: "a change of a limit is forgotten before an empty bucket has filled",
			Edits: []Edit{{change, "if lasts = lasts*1.1 + 5e9;", "if lasts = lasts * 0.5;"}},
		},
		{
			Name: "slowed-rule-not-seen", Breaks: "a region remembers nothing of the limits of the rules before",
			Edits: []Edit{{former, "if old == nil || old.SameLimits(r) {", "if old == nil || old.SameLimits(r) || at != 0 {"}},
		},
		{
			Name: "ended-override-not-seen", Breaks: "the end of an override is no change of the limit",
			Edits: []Edit{{former, "if !sameHold(r, before.unixMS, unixMS) {", "if !sameHold(r, before.unixMS, unixMS) && at == 0 {"}},
		},
		{
			Name: "restart-proves-nothing", Breaks: "a daemon that restarts takes a change for as recent as its start, also for what an expired record has lost",
			Edits: []Edit{{former, "				c = c.Unknown(to.Algorithm.Counts())\n", "				_ = c\n"}},
		},
	}
}
