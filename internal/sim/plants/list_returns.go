package plants

import "aliquot/limit"

// returns are bugs of daemons that stop in order, and come back with what they remembered of a store that has lost its
// contents.
func returns() []Plant {
	const (
		place    = "internal/place/place.go"
		snapshot = "internal/recall/snapshot.go"
		ret      = "internal/recall/return.go"
	)
	stops := World{
		Faults: []string{"daemon stopped in order"}, Just: true, Regions: 2, Keys: 1,
		Algorithms: []string{limit.TokenBucket.String(), limit.SlidingLog.String()},
	}
	return []Plant{
		{
			Name: "place-kept-from-another", Breaks: "a daemon has its place though another one has come since it stopped",
			Edits: []Edit{{place, "\treturn Place{}\n", "\treturn p\n"}}, World: stops,
		},
		{
			Name: "place-beside-a-claim", Breaks: "a daemon's place is kept though another one without a store was told that the floor may be its own",
			Edits: []Edit{{"coordinator/internal/service/places.go", "if !has || floors.Claimed(req.GetRegion()) {", "if !has {"}}, World: stops,
		},
		{
			Name: "place-given-twice", Breaks: "a second run has the place that the first one has taken",
			Edits: []Edit{{place, "token != 0 && (p.TakenBy == 0 || p.TakenBy == incarnation)", "token != 0"}}, World: stops,
		},
		{
			Name: "place-of-another-token", Breaks: "a daemon has the place of another one",
			Edits: []Edit{{place, "p.Token == token && token != 0 && (", "token != 0 && ("}}, World: stops,
		},
		{
			Name: "loss-dated-at-return", Breaks: "contents that were lost long before a restart count as lost at it, and new clients have earned nothing before",
			Edits: []Edit{{snapshot, "t.emptied = max(t.emptied, s.Emptied+shift)", "t.emptied = now"}},
		},
		{
			Name: "loss-forgotten-at-return", Breaks: "a daemon that comes back tells contents nothing that its last run remembered of earlier ones",
			Edits: []Edit{{snapshot, "	if s.Emptied != 0 {\n		t.emptied = max", "	if false {\n		t.emptied = max"}},
		},
		{
			Name: "snapshot-beside-another", Breaks: "a daemon leaves what it remembered though another one may have spent",
			Edits: []Edit{{snapshot, "\tif now >= t.heldUntil {\n", "\tif now < 0 {\n"}}, World: stops,
		},
		{
			Name: "snapshot-without-calls", Breaks: "what calls in flight may have taken is forgotten when a daemon stops",
			Edits: []Edit{{snapshot, "left: k.Left, asked: k.Asked, overruns", "left: k.Left, overruns"}}, World: stops,
		},
		{
			Name: "snapshot-without-lost-calls", Breaks: "what calls without an answer may have taken is forgotten when a daemon stops",
			Edits: []Edit{{snapshot, "\tt.restoreLost(d, k, k.Lost-k.Folded, shift)\n", ""}}, World: stops,
		},
		{
			Name: "snapshot-without-debts", Breaks: "what a daemon has admitted without its store is forgotten when it stops",
			Edits: []Edit{{snapshot, "\t\tt.restoreDebt(k, shift)\n", ""}}, World: stops,
		},
		{
			Name: "snapshot-of-a-crowded-table", Breaks: "a key for which a stopped daemon had no room counts as unused since then",
			Edits: []Edit{{snapshot, "\tt.missed(now)\n", ""}},
		},
		{
			Name: "snapshot-of-a-younger-table", Breaks: "a key that a stopped daemon did not know counts as unused since the clock began",
			Edits: []Edit{{snapshot, "\tt := New(max, s.Whole+shift)\n", "\tt := New(max, 0)\n"}}, World: stops,
		},
		{
			Name: "snapshot-by-another-clock", Breaks: "a bucket earns what the difference of two clocks says",
			Edits: []Edit{{snapshot, "\tif !sameClock || s.At > now {\n", "\tif s.At > now {\n"}}, World: stops,
		},
		{
			Name: "snapshot-loses-what-was-taken", Breaks: "what calls may have taken before an earlier loss is forgotten when a daemon stops",
			Edits: []Edit{{snapshot, "\tif k.TakenAt != 0 {\n", "\tif k.TakenAt < 0 {\n"}}, World: stops,
		},
		{
			Name: "snapshot-without-slots", Breaks: "slots that were given out without the store are forgotten when a daemon stops",
			Edits: []Edit{{snapshot, "\td.slots = k.slots(shift)\n", ""}}, World: stops,
		},
		{
			Name: "adopts-older-knowledge", Breaks: "what the last run knew of a key stands for what the store has said since",
			Edits: []Edit{{snapshot, "\t\tif k.Known && !known {\n", "\t\tif k.Known {\n"}}, World: stops,
		},
		{
			Name: "adopts-without-debts", Breaks: "what the last run owed the same contents of a store is forgotten",
			Edits: []Edit{{snapshot, "d.total+k.Owed, max(d.full", "d.total, max(d.full"}}, World: stops,
		},
		{
			Name: "adopts-without-lost-calls", Breaks: "what lost calls of the last run took of the same contents of a store is forgotten",
			Edits: []Edit{{snapshot, "\t\tif known { // otherwise", "\t\tif true { // otherwise"}}, World: stops,
		},
		{
			Name: "limit-of-replaced-rules", Breaks: "the limit of a decision by rules that were replaced is told under the present ones",
			Edits: []Edit{{"budget/region.go", "\tif u.Rules == r.rules {\n", "\t{\n"}}, World: World{Faults: []string{"limit lowered", "limit raised", "store commands stuck"}},
		},
		{
			Name: "cold-limit-of-replaced-rules", Breaks: "a cold key is asked for with the limit of rules that were replaced",
			Edits: []Edit{{"budget/region.go", "\tif u.Rules != r.rules {\n", "\tif false {\n"}}, World: World{Faults: []string{"limit lowered", "limit raised", "store commands stuck"}},
		},
		{
			Name: "candidates-of-replaced-rules", Breaks: "a cold key that was asked for before the rules were replaced is asked for by the older limit",
			Edits: []Edit{{"budget/region_step.go", "\tclear(r.candidates)\n\tr.asking, r.asked = nil, nil\n", ""}}, World: World{Faults: []string{"limit lowered", "limit raised", "store commands stuck"}},
		},
		{
			Name: "return-after-admissions", Breaks: "what a daemon has admitted since it came back is forgotten with the table that it began with",
			Edits: []Edit{{ret, "\tcase t.Owing() > 0:\n", "\tcase t.Owing() < 0:\n"}}, World: stops,
		},
		{
			Name: "held-back-shows-tokens", Breaks: "a daemon that must not spend yet shows what is left, so clients get it and nobody is charged",
			Edits: []Edit{{"regional/internal/emergency/emergency.go", "\tif back {\n", "\tif false {\n"}},
		},
		{
			Name: "no-room-shows-tokens", Breaks: "a key for which memory has no room shows what is left, so clients get it and nobody is charged",
			Edits: []Edit{{"internal/recall/decide.go", "allowed, out[i].Tokens = false, min(0, out[i].Tokens)", "allowed = false"}},
		},
		{
			Name: "accepts-before-its-session", Breaks: "a daemon that comes back accepts clients while it must not spend, and refuses them",
			Edits: []Edit{{"regional/daemon.go", "\t\t\t\t\td.awaitReturn(ctx)\n", "\t\t\t\t\t_ = d.awaitReturn\n"}},
		},
		{
			Name: "return-to-the-same-contents", Breaks: "what a daemon remembered stands for newer records of the same store",
			Edits: []Edit{{ret, "\tcase contents == r.contents:\n", "\tcase contents == \"\":\n"}}, World: stops,
		},
	}
}
