package plants

import "time"

// memory are bugs after a store or a daemon has lost what it knew.
func memory() []Plant {
	const (
		region = "budget/region.go"
		floor  = "budget/region_floor.go"
		settle = "limit/settle.go"
		apply  = "limit/apply.go"
		extra  = "limit/extra.go"
		known  = "internal/recall/known.go"
		change = "internal/entitlement/change.go"
	)
	return []Plant{
		{
			Name: "denied-refunded-twice", Breaks: "a charge of a denied request comes back although the bucket has earned it again",
			Edits: []Edit{{"limit/adjust.go", "back = max(0, back-a.overflow(&r, in, now))", "back = max(0, back-0*a.overflow(&r, in, now))"}},
		},
		{
			Name: "denied-refunded-twice-in-redis", Breaks: "the script gives a charge of a denied request back although the bucket has earned it again",
			Edits: []Edit{{"lua/adjust.lua", "if room >= 0 then -- limit", "if false then -- limit"}},
		},
		{
			Name: "changes-not-dated", Breaks: "a change of a share is not dated by the clock of the node that made it",
			Edits: []Edit{{"lua/apply.go", ", At: now}", "}"}},
		},
		{
			Name: "adjustments-not-dated", Breaks: "an adjustment is not dated by the clock of the node that made it",
			Edits: []Edit{{"lua/kept.go", ", At: at,", ", At: 0 * at,"}},
		},
		{
			Name: "answers-dated-by-another-node", Breaks: "what one node of a cluster answered is dated by the clock of another, so it may hide a later answer",
			Edits: []Edit{{"regional/internal/emergency/emergency.go", "decided := r.Clock(i, storeNow)", "decided := storeNow"}},
		},
		{
			Name: "unsent-calls-cost", Breaks: "a call that no node of a cluster has got counts as charged, so the client is refused while the node is silent",
			Edits: []Edit{{"regional/internal/emergency/emergency.go", "; storeguard.ChargedNothing(err) {", "; storeguard.IsOpen(err) {"}},
		},
		{
			Name: "debts-taken-by-each-call", Breaks: "what a call carried counts as owed still when another node of the cluster did not decide its part",
			Edits: []Edit{{"regional/internal/emergency/emergency.go", "if err := r.Undecided[i]; err != nil {", "if err := r.Err; err != nil {"}},
		},
		{
			Name: "debt-of-a-day", Breaks: "what a slow bucket owes is forgotten after a day, when the bucket is far from full",
			Edits: []Edit{{"internal/entitlement/emergency.go", "const longest = 100 * 365 * 24 * time.Hour", "const longest = 24 * time.Hour"}},
		},
		{
			Name: "old-records-trusted", Breaks: "a record of older contents is trusted after a failover",
			Edits: []Edit{{settle, "trusted := r.Stamp == v.Stamp && (", "trusted := !r.Absent() && ("}, {apply, "if r.Stamp == c.View.Stamp && r.Gen", "if !r.Absent() && r.Gen"}},
			World: World{Keys: 2, Faults: []string{"store rolled back"}, Just: true},
		},
		{
			Name: "crowded-out-unused", Breaks: "a key for whose call a full table has no room counts as unused",
			Edits: []Edit{{"internal/recall/call.go", "			t.unrecorded++\n", "			k.unrecorded = false\n"}},
		},
		{
			Name: "crowded-out-call-ends", Breaks: "a call for which a full table had no room takes off what later calls of its key may take, when it ends",
			Edits: []Edit{{"internal/recall/call.go", "		return // what is under way of the key by now is of later calls\n", ""}},
		},
		{
			Name: "crowded-out-change", Breaks: "a key for whose share change a full table has no room counts as unused",
			Edits: []Edit{{"internal/recall/table.go", "	t.whole = max(t.whole, now)\n	return false\n", "	return false\n"}},
		},
		{
			Name: "older-record-trusted", Breaks: "a record that is older than the caller's share is trusted",
			Edits:    []Edit{{settle, " && (!v.Hot || r.Gen >= v.Gen)\n", "\n"}},
			Harmless: "argued: within one identity of contents records do not go back; a failover that loses writes brings another identity",
		},
		{
			Name: "back-to-another-window", Breaks: "after the store's clock went back to another window, use of the later one counts alone",
			Edits: []Edit{{"limit/use.go", "	case u.Window == v.Window && u.Label == label(now, v.Window):\n", "	case u.Window == v.Window:\n"}},
		},
		{
			Name: "back-and-forgotten", Breaks: "after the store's clock went back, a log counts only what had not ended by the later time",
			Edits: []Edit{{"limit/use.go", "		out.Free = max(u.Free, at)\n", ""}},
		},
		{
			Name: "future-record-trusted", Breaks: "a record from the future, after the store's clock went back, keeps its tokens",
			Edits: []Edit{{settle, "r.At, r.Tokens, r.Carry, r.Extra = now, min(r.Tokens, 0), 0, 0", "r.At = now"}},
			World: World{Faults: []string{"store's clock set"}, Just: true},
		},
		{
			Name: "leap-not-waited-out", Breaks: "a daemon that finds its store's clock set forward trusts its floor at once: the store's mark of who was heard looks old",
			Edits: []Edit{{"internal/entitlement/frame.go", "if leapt := d.Clock.Leapt(); leapt != 0 {", "if leapt := d.Clock.Leapt(); leapt < 0 {"}},
			World: World{Regions: 2, Keys: 4, Lease: 3 * time.Second, Faults: []string{"second daemon", "store's clock set", "store flushed", "cut both ways"}, Just: true},
		},
		{
			Name: "amnesia-to-floor", Breaks: "a hot key whose record is lost is given the floor",
			Edits: []Edit{{settle, "r = Record{Hot: true, Gen: v.Gen, Share: v.Share}", "r, enforced = Record{Hot: true, Gen: v.Gen, Share: v.Floor}, v.Floor"}},
		},
		{
			Name: "amnesia-full", Breaks: "a hot key whose record is lost starts with a full bucket",
			Edits: []Edit{{settle, "r = Record{Hot: true, Gen: v.Gen, Share: v.Share}", "r = Record{Hot: true, Gen: v.Gen, Share: v.Share, Tokens: v.Share.Cap}"}},
		},
		{
			Name: "every-store-starts-full", Breaks: "cold buckets are full in every store contents, not in the first only",
			Edits: []Edit{{region, "return r.storeEpoch != \"\" && r.storeEpoch == r.initialEpoch", "return r.storeEpoch != \"\""}},
			World: World{Keys: 2, Faults: []string{"store flushed"}, Just: true},
		},
		{
			Name: "first-contents-unrecorded", Breaks: "a session opens before the first store contents are on record",
			Edits: []Edit{{"budget/leader_session.go", "case r.hello == nil || l.firstContents(i):", "case r.hello == nil:"}},
			World: World{Keys: 2, Faults: []string{"store flushed", "messages lost"}, Just: true},
		},
		{
			Name: "generation-forgotten", Breaks: "a key that cools down forgets its generation, which fences stuck commands and earlier daemons, and may cool under one",
			Edits: []Edit{
				{extra, "r.Hot, r.Share = false, Bucket{}", "r.Hot, r.Gen, r.Share = false, 0, Bucket{}"},
				{"budget/leader_cool.go", "(!l.regions[i].live || now < l.regions[i].coolFrom)", "!l.regions[i].live"},
			},
			World: World{Regions: 2, Lease: 10 * time.Second, Faults: []string{"second daemon", "daemon restarts"}, Just: true},
		},
		{
			Name: "limbo-shortens-life", Breaks: "a daemon that may spend nothing in limbo keeps a record for as long as a bucket of nothing needs to be full",
			Edits: []Edit{{"internal/entitlement/frame.go", "v.Floor, v.LimboFloor = Bucket(l, r.Told), v.Floor", "v.LimboFloor = v.Floor"}},
			World: World{Keys: 2, Faults: []string{"second daemon", "store flushed and daemon restarts", "cut from the leader"}, Just: true},
		},
		{
			Name: "blind-keeps-floor", Breaks: "a daemon that has lost its memory together with its store keeps its floor in limbo",
			Edits: []Edit{{floor, "		return Share{}\n", "		return floor\n"}},
		},
		{
			Name: "epoch-not-written-down", Breaks: "a daemon that restarts believes a leader older than the last it heard",
			Edits:    []Edit{{floor, "r.self, r.cfg, r.initialEpoch, r.highestEpoch = self, cfg, initialRedisEpoch, epoch", "r.self, r.cfg, r.initialEpoch = self, cfg, initialRedisEpoch"}},
			World:    World{Faults: []string{"leader lingers", "cut from the leader", "daemon restarts", "store flushed and daemon restarts", "messages reordered", "messages repeated"}, Just: true},
			Harmless: "argued: as for old-leader-believed: a deposed leader has nothing to answer",
		},
		{
			Name: "record-expires-early", Breaks: "the time to live of a cold record is half of what its bucket needs to fill",
			Edits: []Edit{{apply, "missing/perSecond) * 1020)", "missing/perSecond) * 510)"}},
			World: World{Keys: 4, Faults: []string{"messages lost"}, Just: true},
		},
		{
			Name: "recall-forgets-calls", Breaks: "what a call under way may take is not taken off what the daemon remembers",
			Edits: []Edit{{"internal/recall/call.go", "	e.asked += c.Cost\n", ""}, {"internal/recall/lost.go", "one := lostCalls{cost: k.cost,", "one := lostCalls{cost: min(1, k.cost),"}},
			World: World{Regions: 2, Keys: 2, Burst: 10, Rate: 100, Faults: []string{"all store commands stuck", "store commands stuck"}, Just: true},
		},
		{
			Name: "lost-calls-before-an-earlier-answer", Breaks: "what a call without an answer may take is forgotten at the late answer to a call before it",
			Edits: []Edit{{"internal/recall/lost.go", "	delete(t.taken, key)\n	if d := t.debt[key]; d != nil && d.folded.cost > 0 {", "	delete(t.taken, key)\n	if d := t.debt[key]; false {"}},
		},
		{
			Name: "lost-calls-over-too-early", Breaks: "calls without an answer are over when the first of them is",
			Edits: []Edit{{"internal/recall/lost.go", "max(l.until, b.until), max(l.ends", "min(l.until, b.until), max(l.ends"}},
		},
		{
			Name: "recall-pays-unheard", Breaks: "a debt counts as paid by a call that was not answered",
			Edits: []Edit{{"internal/recall/call.go", "	if taken && carried", "	if (taken || true) && carried"}},
			World: World{Regions: 2, Keys: 2, Burst: 10, Rate: 100, Faults: []string{"all store commands stuck", "store commands stuck"}, Just: true},
		},
		{
			Name: "recall-keeps-lost-contents", Breaks: "a daemon goes by what the store held before its contents were lost",
			Edits: []Edit{{"regional/internal/emergency/emergency.go", "		e.table.Emptied(now)\n", ""}},
		},
		{
			Name: "recall-keeps-shares", Breaks: "what a daemon remembers of a key stays while its share shrinks in the store",
			Edits: []Edit{{"internal/recall/table.go", "	e.left, e.at, e.told, e.capacity = min(e.left, 0), now, false, 0\n	t.keys.put(key, e)\n", "	t.keys.put(key, e)\n"}, {"internal/recall/table.go", "	if left := tokens - t.Owed(key, now); !e.told ||", "	if left := tokens - t.Owed(key, now); false && !e.told ||"}},
			World: World{Regions: 2, Keys: 2, Burst: 100, Rate: 10, Faults: []string{"all store commands stuck", "store commands stuck"}},
		},
		{
			Name: "recall-while-a-share-changes", Breaks: "what the store answers before it changes a share counts while that change is under way",
			Edits: []Edit{
				{"internal/recall/table.go", "		e = e.uncertain()\n		e.told = told\n", "		e.told = told\n"},
				{"internal/recall/table.go", "	e := t.find(c, now)\n	if t.isChanging(c.Key) {\n", "	e := t.find(c, now)\n	if false {\n"},
			},
			World: World{Regions: 2, Keys: 1, Burst: 100, Rate: 10, Faults: []string{"all store commands stuck", "store commands stuck"}, Just: true},
		},
		{
			Name: "recall-after-a-lost-change", Breaks: "what the store answers before it changes a share counts once the change's answer is lost",
			Edits: []Edit{{"internal/recall/table.go", "changing && sent >= ch.until {", "changing && ch.until != math.MaxInt64 {"}},
			World: World{Regions: 2, Keys: 2, Burst: 100, Rate: 10, Faults: []string{"all store commands stuck", "store commands stuck"}},
		},
		{
			Name: "recall-late-answer-to-a-change", Breaks: "the answer to a share change that was made in contents which the store has lost since counts",
			Edits: []Edit{{"internal/recall/table.go", "	delete(t.changing, key)\n	return changing\n", "	delete(t.changing, key)\n	return changing || true\n"}},
		},
		{
			Name: "recall-debt-at-a-change", Breaks: "what a bucket owes is forgotten while its share changes",
			Edits: []Edit{{"internal/recall/table.go", "e.left, e.at, e.told, e.capacity = min(e.left, 0), now, false, 0", "e.left, e.at, e.told, e.capacity = 0, now, false, 0"}},
		},
		{
			Name: "recall-drops-a-debt", Breaks: "a full memory drops a bucket that owes tokens as if it were empty",
			Edits: []Edit{{"internal/recall/room.go", "	if !e.counts && e.left < 0 {", "	if false {"}},
		},
		{
			Name: "change-hides-a-debt", Breaks: "the answer to a share change says that nothing is left of a bucket that owes tokens",
			Edits: []Edit{{"limit/apply.go", "	a.Tokens = r.held()\n", "	a.Tokens = max(0, r.held())\n"}},
		},
		{
			Name: "recall-rights-that-the-store-does-not-know", Breaks: "where a store does not know what is in use, a share change or a settlement leaves rights in the next window",
			Edits: []Edit{{"internal/recall/call.go", "		e.left = -limit.MaxTokens // so there are no rights, whatever the store says to be left\n", "		e.left += 0\n"}},
			World: World{Algorithms: []string{"fixed_window"}, Regions: 2, Keys: 2, Faults: []string{"all store commands stuck", "store flushed"}, Just: true},
		},
		{
			Name: "recall-beside-a-loan", Breaks: "what a daemon remembers of a bucket fills up beside what it has borrowed of it",
			Edits: []Edit{{"internal/recall/table.go", "max(0, most-e.lent)", "most"}},
		},
		{
			Name: "recall-overtaken", Breaks: "an answer that was overtaken before a share changed counts as news",
			Edits:    []Edit{{"internal/recall/table.go", "e.left, e.at, e.told, e.capacity = min(e.left, 0), now, false, 0", "e.left, e.at, e.stamp, e.told, e.capacity = min(e.left, 0), now, 0, false, 0"}},
			World:    World{Faults: []string{"all store commands stuck", "store lost for one daemon"}, Just: true},
			Harmless: "argued: while a share changes, what is known of the key counts as nothing or as a debt, whatever an answer says. The answer to the change, or to a call that left after it, replaces it",
		},
		{
			Name: "recall-taken-at-the-last-answer", Breaks: "calls without an answer can have taken of lost contents only what the bucket held at the latest answer, not what it earned until then",
			Edits: []Edit{{"internal/recall/table.go", "	e = e.to(c, lost.at)\n", ""}},
			World: World{Faults: []string{"all store commands stuck", "store flushed"}, Just: true},
		},
		{
			Name: "recall-use-told-by-a-change", Breaks: "what a share change says to be in use is not counted beside what the daemon admitted",
			Edits: []Edit{{"internal/recall/table.go", "			t.recount(c, &e, now)\n", ""}},
			World: World{Faults: []string{"all store commands stuck", "store flushed"}, Just: true},
		},
		{
			Name: "recall-first-of-a-call", Breaks: "of several requests for a key that one call of the store decides, the daemon remembers the first one's answer",
			Edits: []Edit{{"internal/recall/call.go", "(stamp >= e.stamp || k.sent >= e.at)", "(stamp > e.stamp || k.sent >= e.at)"}},
		},
		{
			Name: "recall-clips-despite-lost-calls", Breaks: "a debt ends with what the bucket may lack by the answered calls, whatever calls without an answer took",
			Edits: []Edit{{"internal/recall/call.go", "max(0, e.left-t.pending(&others, &e))", "max(0, e.left)"}},
		},
		{
			Name: "recall-clips-while-a-share-changes", Breaks: "a debt ends with what the bucket may lack by a share that may be another one by now",
			Edits:    []Edit{{"internal/recall/table.go", "	e.left, e.at, e.told, e.capacity = min(e.left, 0), now, false, 0\n", "	e.left, e.at, e.told = min(e.left, 0), now, false\n"}},
			Harmless: "argued: while a share changes, the capacity counts as unknown wherever it is looked up, and the answer to the change leaves it unknown",
		},
		{
			Name: "recall-of-a-lent-floor", Breaks: "a daemon that is cut off goes on by what it remembered of a key whose floor it had lent",
			Edits: []Edit{{"internal/entitlement/emergency.go", "	return max(r.Since, r.FloorSince)\n", "	return r.FloorSince\n"}},
			World: World{Regions: 2, Keys: 2, Burst: 100, Rate: 10, Faults: []string{"all store commands stuck", "cut both ways", "cut from the leader"}},
		},
		{
			Name: "recall-full-at-once", Breaks: "a key that the daemon has not asked about is full from its start on",
			Edits: []Edit{{"internal/recall/table.go", "entry{at: min(now, max(t.whole, c.From)), basis: math.MaxInt64}.to(c, now)", "entry{left: c.Bucket.Cap, at: now, basis: math.MaxInt64}"}},
			World: World{Regions: 2, Keys: 2, Burst: 100, Rate: 10, Faults: []string{"all store commands stuck", "daemon restarts", "store flushed and daemon restarts"}},
		},
		{
			Name: "changed-limit-was-always-so", Breaks: "what a daemon knows of a bucket has earned by a changed limit since before the change",
			Edits: []Edit{{"internal/recall/table.go", "min(until, c.Revised), min(e.basis, former), ", "min(until, c.Revised), min(e.basis, c.Bucket.Rate.Micro), "}},
		},
		{
			Name: "raised-burst-was-always-so", Breaks: "what a daemon knows of a bucket was as large before a change of its limit as it is now",
			Edits: []Edit{{"internal/recall/table.go", ", min(most, c.Former.Cap)\n", ", most\n"}},
		},
		{
			Name: "held-beside-another", Breaks: "the store is told what a daemon knows of a changed limit though another daemon may have spent",
			Edits: []Edit{{known, "if c.Foreign || t.isChanging(c.Key) {", "if t.isChanging(c.Key) {"}},
		},
		{
			Name: "held-while-a-share-changes", Breaks: "the store is told what a key of a changed limit held before a change of its share",
			Edits: []Edit{{known, "if c.Foreign || t.isChanging(c.Key) {", "if c.Foreign {"}},
		},
		{
			Name: "held-despite-lost-calls", Breaks: "what the store is told of a changed limit's key leaves out what lost calls may have taken",
			Edits: []Edit{{known, "		held -= d.lostCost()\n", "		_ = d\n"}},
		},
		{
			Name: "held-less-its-debt", Breaks: "what a changed limit's key owes comes off twice",
			Edits: []Edit{{known, "c, now).left + t.Owed(c.Key, now)", "c, now).left"}},
		},
		{
			Name: "held-and-earned-again", Breaks: "what a key has earned since its limit changed counts twice",
			Edits: []Edit{{change, "then := held - earnedIn(v.Cold().Rate, since)", "then := held"}},
		},
		{
			Name: "held-is-full", Breaks: "a bucket of which anything is known is full after its limit has changed",
			Edits: []Edit{{change, "case held >= v.Cold().Cap:", "case held > 0:"}},
		},
		{
			Name: "change-unknown-without-store", Breaks: "without its store a daemon does not know that a limit has changed",
			Edits: []Edit{{"regional/internal/emergency/emergency.go", "	if a.Changed != nil {\n		c.Former", "	if false {\n		c.Former"}},
		},
		{
			Name: "recall-by-a-fast-clock", Breaks: "what is earned without the store is counted by a clock that may run fast",
			Edits:    []Edit{{"internal/entitlement/emergency.go", "uint64(million+rhoPPM)", "uint64(million)"}},
			World:    World{Regions: 2, Keys: 2, Burst: 10, Rate: 100, Faults: []string{"all store commands stuck", "drifting clocks"}},
			Harmless: "argued: what is promised of a key has rho of its rate to spare, which is as much as one daemon's clock can run fast; it shows only where all regions' stores stop at once and all their daemons' clocks run fast, beside refill that has rounded nothing away",
		},
		{
			Name: "debit-forgiven", Breaks: "what the emergency limit admitted is not debited",
			Edits: []Edit{{settle, "	r.spend(min(v.Debit, max(0, r.held())))\n", ""}},
			World: World{Keys: 2, Faults: []string{"all store commands stuck", "region's machine suspended"}},
		},
	}
}
