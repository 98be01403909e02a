package plants

// slots are bugs of slots that are given out while a store does not answer.
func slots() []Plant {
	const (
		slots  = "internal/recall/slots.go"
		call   = "internal/recall/call.go"
		settle = "limit/settle.go"
	)
	stuck := World{Algorithms: []string{"concurrency"}, Regions: 2, Keys: 2, Faults: []string{"all store commands stuck", "store commands stuck"}, Just: true}
	return []Plant{
		{
			Name: "slots-entered-for-good", Breaks: "a slot counts as entered in the store while the call that asked for it may still be given back there",
			Edits: []Edit{{slots, "		if now <= s.open {\n", "		if s.open < 0 {\n"}},
			World: stuck,
		},
		{
			Name: "slots-of-ended-calls-entered", Breaks: "a slot that was given out after the call that asked for it had ended counts as entered, though a store of several servers may give it back",
			Edits: []Edit{{slots, "|| c.Own.state == unsent {", "|| c.Own.state != underway {"}},
			World: stuck,
		},
		{
			Name: "slots-reported-forgotten", Breaks: "slots that the store has reported to be in use do not count in an outage",
			Edits: []Edit{{slots, "		used += limit.Tokens(e.basis)\n", "		used += 0\n"}},
			World: stuck,
		},
		{
			Name: "slots-held-forgotten", Breaks: "slots that a daemon has given out do not count beside those that the store reported",
			Edits: []Edit{{slots, "		used += d.held(now) + d.total - d.paid\n", "		used += d.total - d.paid\n"}},
			World: stuck,
		},
		{
			Name: "slots-not-entered", Breaks: "a store does not enter the slots that a call tells it",
			Edits: []Edit{{settle, ".enter(v.Held, now)", ""}},
			World: stuck,
		},
		{
			Name: "slots-counted-twice", Breaks: "a slot that was entered before its request came is entered once more",
			Edits: []Edit{{"limit/use.go", "	if cost == 0 || slot != 0 && u.has(slot) {\n", "	if cost == 0 {\n"}},
			World: stuck,
		},
		{
			Name: "slots-end-by-a-fast-clock", Breaks: "slots that the store has reported end by a clock of the daemon that may run fast",
			Edits: []Edit{{slots, "return slower(budget.Instant(c.Limit.Window), c)", "return budget.Instant(c.Limit.Window)"}},
			World: stuck,
		},
		{
			Name: "slots-end-with-a-shorter-rule", Breaks: "a rule with a shorter window ends slots that were taken before it",
			Edits: []Edit{{slots, "e.lentUntil = max(e.lentUntil, now+lasting(c))", "e.lentUntil = now + lasting(c)"}},
			World: stuck,
		},
		{
			Name: "slots-freed-after-their-end", Breaks: "a slot that is given back after its end frees one of those that the store reported",
			Edits: []Edit{
				{slots, "|| e.unknown() || int64(s.until) <= e.stamp {", "|| e.unknown() {"},
				{slots, "	t.disown(key, func(s slot) bool { return int64(s.until) <= stamp })\n", ""},
			},
			World: stuck,
		},
		{
			Name: "slots-freed-twice", Breaks: "a slot is freed once more although a call that releases it has left",
			Edits: []Edit{{slots, "	t.disown(c.Key, func(s slot) bool { return s.name == c.Slot })\n	if d := t.debt[c.Key]; d != nil {\n		d.dropSlot", "	if d := t.debt[c.Key]; d != nil {\n		d.dropSlot"}},
			World: stuck,
		},
		{
			Name: "slots-released-overtaken", Breaks: "of two answers about a key the one to a release counts as the later one",
			Edits: []Edit{{call, "k.sent > e.at && ", ""}},
			World: stuck,
		},
		{
			Name: "slots-entered-unheard", Breaks: "what a release has told counts as entered, though the answer that counts may have been given before",
			Edits: []Edit{{call, "if t.Paid(c.Key, carried, latest); !latest {", "if t.Paid(c.Key, carried, true); !latest {"}},
			World: stuck,
		},
		{
			Name: "slots-by-earlier-rights", Breaks: "after a release, all but what is left of the rights of the answer before is taken for what is in use",
			Edits: []Edit{{call, "t.learnUse(c, &e, left, used, stamp, now)", "t.learnUse(c, &e, left, max(0, e.left+limit.Tokens(e.basis)-left), stamp, now)"}},
			World: World{Algorithms: []string{"concurrency"}, Keys: 2, Faults: []string{"store flushed", "timing changed", "region reweighted", "daemon paused", "store commands stuck"}, Just: true},
		},
		{
			Name: "slots-of-lost-contents", Breaks: "an answer about contents that are lost says which slots the present ones have",
			Edits: []Edit{{call, "known && k.voided == t.voided && k.sent", "known && k.sent"}},
			World: stuck,
		},
		{
			Name: "slots-while-a-share-changes", Breaks: "slots are given out while it is unknown what the store has of a key",
			Edits: []Edit{{"internal/recall/use.go", "	case !e.told:\n		return out\n", ""}},
			World: stuck,
		},
		{
			Name: "slots-untouched-at-once", Breaks: "of a key that the daemon has not asked about no slot is in use from its start on",
			Edits: []Edit{{"internal/recall/table.go", "		return now >= t.whole+lasting(c)\n", "		return true\n"}},
			World: World{Algorithms: []string{"concurrency"}, Regions: 2, Keys: 2, Faults: []string{"all store commands stuck", "daemon restarts"}, Just: true},
		},
		{
			Name: "slots-covered-kept", Breaks: "a slot whose call the store has answered is told once more",
			Edits: []Edit{{call, "			d.dropSlot(k.slot) // the store has it\n", ""}},
			World: stuck,
		},
		{
			Name: "slots-renamed", Breaks: "a slot gets another name when its request is sent, so that its holder's release does not find it",
			Edits: []Edit{{"regional/internal/charge/call.go", "if a.Limit.Algorithm == limit.Concurrency && a.Slot == 0 {\n				a.Slot = slots.Next()", "if a.Limit.Algorithm == limit.Concurrency {\n				a.Slot = slots.Next()"}},
		},
	}
}
