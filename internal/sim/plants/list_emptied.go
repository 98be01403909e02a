package plants

// emptied are bugs of what a daemon tells a store that has lost its contents.
func emptied() []Plant {
	const (
		emptied = "internal/recall/emptied.go"
		table   = "internal/recall/table.go"
		settle  = "limit/settle.go"
		mem     = "limit/memory.go"
		dates   = "internal/recall/recent.go"
	)
	return []Plant{
		{
			Name: "denial-cut-at-zero", Breaks: "a denial says that as much is in use of a counting limit as there are rights to, though more may be",
			Edits: []Edit{{"internal/recall/call.go", "t.learnUse(c, e, left, out.InUse(), stamp, now)", "t.learnUse(c, e, left, min(out.InUse(), out.Bucket.Cap), stamp, now)"}},
			World: World{Algorithms: []string{"sliding_window_counter", "sliding_window_log"}, Regions: 2, Keys: 2, Faults: []string{"store's clock set", "all store commands stuck", "store commands stuck"}, Just: true},
		},
		{
			Name: "share-change-over-later-answer", Breaks: "the answer to a share change counts over that to a call which the store decided after it",
			Edits: []Edit{{table, "!e.told || stamp > e.stamp ||", "true ||"}},
		},
		{
			Name: "use-of-a-longer-window-forgotten", Breaks: "what was admitted under a rule with a longer window is forgotten under the present one",
			Edits: []Edit{{"internal/recall/use.go", "	if u.window == window || unsure(c) {", "	if true {"}},
		},
		{
			Name: "settlement-says-nothing", Breaks: "a debt of a counting limit that a settlement has paid is forgotten, though it is in use",
			Edits: []Edit{{"regional/internal/emergency/emergency.go", "case len(adjusted) > 0 && adjusted[i].At != 0:", "case len(adjusted) > 0 && adjusted[i].At != 0 && a.Limit.Algorithm == limit.Concurrency:"}},
		},
		{
			Name: "settlement-in-flight-forgotten", Breaks: "what a settlement of a counting limit charges is given out while another answer overtakes it",
			Edits: []Edit{{"internal/recall/call.go", "		t.Lost(k, c, now)\n", "		t.landed(k, c)\n"}},
		},
		{
			Name: "settlement-beside-an-earlier-answer", Breaks: "what a settlement takes of a bucket beyond its reservation is given out after the answer to an earlier call",
			Edits: []Edit{{"internal/recall/call.go", "		t.Answered(k, c, true, limit.Outcome{Tokens: left, Bucket: same}, carried, stamp, now)\n", "		_, _ = same, carried\n		t.landed(k, c)\n"}},
		},
		{
			Name: "earned-before-it-was-owed", Breaks: "a bucket of which this run has spent fills up for the time before it",
			Edits: []Edit{{"regional/internal/emergency/kept.go", "key.At = max(key.At, of.At)", "key.At = max(key.At, 0*of.At)"}},
		},
		{
			Name: "extra-of-lost-calls", Breaks: "extra tokens that calls in flight may have taken of lost contents are told to the new ones",
			Edits: []Edit{{emptied, "lost.of(e.left)-c.Bucket.Cap", "e.left-c.Bucket.Cap"}},
		},
		{
			Name: "emptied-and-admitted-while-changing", Breaks: "a store that has lost its contents and did not make a share change is told of what was admitted since as if it had paid for it",
			Edits: []Edit{{emptied, "e, lost, owed = ch.was, ch.taken, ch.owed", "e, lost = ch.was, ch.taken"}},
		},
		{
			Name: "emptied-and-taken-before-a-change", Breaks: "what calls took of lost contents is forgotten when something is admitted while a share changes",
			Edits: []Edit{{emptied, "e, lost, owed = ch.was, ch.taken, ch.owed", "e, owed = ch.was, ch.owed"}},
		},
		{
			Name: "emptied-without-session", Breaks: "a daemon that does not hold the session goes on by what it knew of contents that the store has lost",
			Edits: []Edit{{emptied, "\tif !t.InSession(now) {\n", "\tif false {\n"}},
		},
		{
			Name: "emptied-calls-forgotten", Breaks: "what calls under way took of contents that the store has lost is given out again",
			Edits: []Edit{{emptied, "\t\tmost, overruns, by := e.asked, e.overruns, now\n", "\t\tmost, overruns, by := limit.Tokens(0), e.overruns, now\n"}},
		},
		{
			Name: "emptied-lost-calls-forgotten", Breaks: "what calls without an answer took of contents that the store has lost is given out again",
			Edits: []Edit{{emptied, "\t\t\tmost += d.lostCost()\n", "\t\t\tmost += 0\n"}},
		},
		{
			Name: "emptied-counted-calls-forgotten", Breaks: "what calls without an answer took of a counting limit is not told to the next contents once it counts as in use",
			Edits: []Edit{{emptied, "\tif d.oweOfUse(d.folded.cost, now); d.use", "\tif d.oweOfUse(0, now); d.use"}},
		},
		{
			Name: "emptied-counted-calls-ended", Breaks: "what calls without an answer took of contents that are lost counts as ended before its window",
			Edits: []Edit{{emptied, "\t\td.use.own()\n", "\t\t_ = d.use\n"}},
		},
		{
			Name: "lost-overrun-owes-nothing", Breaks: "a settlement without an answer leaves a bucket at nothing, not below it",
			Edits: []Edit{{"regional/internal/emergency/emergency.go", "max(0, used[i]-a.Cost), true", "max(0, used[i]-a.Cost), false"}},
		},
		{
			Name: "emptied-calls-beside-admissions", Breaks: "what calls under way took of contents that are lost is given out again, where requests were admitted without the store too",
			Edits: []Edit{{emptied, "\t\td.use.undated += taken\n", "\t\t_ = d.use.undated\n"}},
		},
		{
			Name: "undated-use-unseen", Breaks: "what calls under way took of contents that are lost does not count while the store's clock is unknown",
			Edits: []Edit{{"internal/recall/use.go", "\tused, here = u.undated, u.undated\n", ""}},
		},
		{
			Name: "memory-beside-another", Breaks: "a daemon tells its store what it knows of keys though another one may have spent of them",
			Edits: []Edit{{emptied, "t.emptied == 0 || c.Foreign || now", "t.emptied == 0 || now"}},
		},
		{
			Name: "memory-of-late-rights", Breaks: "a daemon tells its store of use under rights that others had until just now",
			Edits: []Edit{{emptied, "e.unknown(), e.at < c.From && now < c.From.Add(tail+tail/2):", "e.unknown(), tail < 0:"}},
		},
		{
			Name: "memory-of-a-change-that-was-made", Breaks: "what a key held before its share changed is told to contents after those in which it may have changed",
			Edits: []Edit{{emptied, "\tclear(t.changing)\n", ""}},
		},
		{
			Name: "memory-of-an-answer-before-a-change", Breaks: "what the store answered just before a key's share changed is told to contents after those in which it may have changed",
			Edits: []Edit{{emptied, "			t.keys.put(key, e.uncertain())\n", "			t.keys.put(key, e)\n"}},
		},
		{
			Name: "memory-of-what-nobody-said", Breaks: "use of a counting limit that its store did not know is told to the next contents as known",
			Edits: []Edit{{emptied, "!e.told, e.unknown(), e.at", "!e.told, e.at"}},
		},
		{
			Name: "unused-too-early", Breaks: "a window that began before the daemon did is unused",
			Edits: []Edit{{table, "\treturn c.Limit.Since(c.StoreNow) >= c.StoreLatest-age+", "\treturn c.Limit.Since(c.StoreNow)+c.Limit.Window.Microseconds() >= c.StoreLatest-age+"}},
		},
		{
			Name: "memory-by-an-old-clock", Breaks: "a store with other contents, and maybe another clock, is told that nothing is in use by the clock before",
			Edits: []Edit{{emptied, "other.StoreNow = 0 //", "_ = 0 //"}},
		},
		{
			Name: "forgets-by-an-old-clock", Breaks: "what was admitted without the store is forgotten by the clock of a store that may be another one by now",
			Edits: []Edit{{"internal/recall/use.go", "\tif !c.OldClock {\n", "\t{\n"}, {"internal/recall/call.go", "d.use != nil && !c.OldClock {", "d.use != nil {"}},
		},
		{
			Name: "forgives-what-is-denied", Breaks: "a loss is forgiven though the rule denies",
			Edits: []Edit{{emptied, "\tif !c.Forgives || c.Birth == 0 ||", "\tif c.Birth == 0 ||"}},
		},
		{
			Name: "forgives-again", Breaks: "a key is forgiven a loss though the store has answered about it since",
			Edits: []Edit{{emptied, "known && e.stamp >= c.Birth {", "known && e.stamp < 0 {"}},
		},
		{
			Name: "memory-over-record", Breaks: "what a daemon remembers stands for records that are there",
			Edits: []Edit{{settle, "remembered := v.Memory != nil && r.Stamp != v.Stamp\n", "remembered := v.Memory != nil\n"}},
		},
		{
			Name: "memory-above-the-floor", Breaks: "what a daemon remembers of a cold key is more than its bucket holds",
			Edits: []Edit{{mem, "r.Tokens = min(m.Tokens, v.Cold().Cap)", "r.Tokens = m.Tokens"}},
		},
		{
			Name: "memory-above-the-share", Breaks: "what a daemon remembers of a hot key is more than its share holds now",
			Edits: []Edit{{mem, "r.Tokens, r.Extra = min(m.Tokens, enforced.Cap), min", "r.Tokens, r.Extra = m.Tokens, min"}},
		},
		{
			Name: "memory-of-another-clock", Breaks: "use of a window that has not begun is forgotten",
			Edits: []Edit{{mem, "v.Window) > current {\n", "v.Window) < 0 {\n"}},
		},
		{
			Name: "counter-before-in-whole", Breaks: "a counter's previous window explains all that was admitted in it, and less of it counts",
			Edits: []Edit{{dates, "counts = partDown(admitted, l.Overlap(latest), window)", "counts, _ = admitted, window"}},
		},
		{
			Name: "part-at-its-beginning", Breaks: "what was admitted in a part of a window counts as admitted when the part began",
			Edits: []Edit{{dates, "At: begins + r.micros() - 1", "At: begins"}},
		},
		{
			Name: "part-of-other-contents", Breaks: "an answer of contents that are lost says when present use was admitted",
			Edits: []Edit{{"internal/recall/call.go", "if e == nil || !e.counts || k.voided != t.voided {", "if e == nil || !e.counts {"}},
		},
		{
			Name: "dates-by-another-clock", Breaks: "what was admitted by a clock that was set back explains what is in use",
			Edits: []Edit{{dates, "r.length != length || to < from {", "r.length != length {"}},
		},
		{
			Name: "dates-beside-another", Breaks: "another daemon may have given back what this one's calls were admitted, and they explain what is in use",
			Edits: []Edit{{dates, "c.From != 0 && now <", "now < 0 && now <"}},
		},
		{
			Name: "memory-of-a-share-that-grew", Breaks: "a share that grew in a window counts at once in it where the store has lost the record",
			Edits: []Edit{{mem, "\t\t\tu.Held, u.HeldLabel = m.Rights, current\n", ""}},
		},
	}
}
