package plants

// floors are bugs while regions come, go and change their weights.
func floors() []Plant {
	const (
		status = "budget/leader_status.go"
		ledger = "budget/floors.go"
		floor  = "budget/region_floor.go"
		region = "budget/region.go"
		settle = "limit/settle.go"
	)
	return []Plant{
		{
			Name: "floors-unasked", Breaks: "every region's agreement to a smaller floor is taken for given",
			Edits: []Edit{{status, "Acknowledged: r.open && r.acked &&", "Acknowledged: true || r.acked &&"}},
			World: World{Faults: []string{"region reweighted", "region drained"}},
		},
		{
			Name: "floor-acknowledged-by-hello", Breaks: "the opening of a session acknowledges a smaller floor",
			Edits: []Edit{{status, "Acknowledged: r.open && r.acked &&", "Acknowledged: r.open || r.acked &&"}},
			World: World{Faults: []string{"region reweighted", "region drained", "messages lost"}},
		},
		{
			Name: "floor-acknowledged-at-once", Breaks: "a smaller floor is in force before decisions that were under way have ended",
			Edits:    []Edit{{status, "now.Sub(r.adoptedAt) >= l.cfg.adoptAfter(tail)", "now.Sub(r.adoptedAt) >= l.cfg.Lengthen(tail)"}},
			World:    World{Faults: []string{"region reweighted", "region drained", "all store commands stuck", "store commands stuck"}, Just: true},
			Harmless: "argued: a decision that is under way has a deadline of half a second, and others get what was given up after three messages and a commit; only a call that is stuck for most of that is too much. Not seen in 66 worlds of stuck calls",
		},
		{
			Name: "floors-raised-first", Breaks: "a floor is raised without room for it having been made",
			Edits: []Edit{{ledger, "free = free.Sub(r.Floor)", "free = free.Sub(r.Told)"}},
			World: World{Faults: []string{"region reweighted", "region drained"}},
		},
		{
			Name: "floor-not-written-down", Breaks: "a smaller floor does not survive a restart of its daemon",
			Edits: []Edit{{"internal/sim/site/node.go", "cfg.Version >= n.w.known[n.Region].cfg.Version", "len(n.w.known[n.Region].cfg.Regions) == 0"}},
			World: World{Faults: []string{"region reweighted", "region drained", "daemon restarts", "all coordinators stop"}},
		},
		{
			Name: "floor-before-session", Breaks: "a larger floor holds before a session has told the shares of hot keys",
			Edits: []Edit{{floor, "		return own.Floor.Min(own.Low)\n", "		return own.Floor\n"}},
			World: World{Regions: 2, Keys: 2, Faults: []string{"region reweighted", "daemon restarts", "all coordinators stop", "cut both ways"}, Just: true},
		},
		{
			Name: "low-ignored", Breaks: "all of the past counts at the present floor",
			Edits: []Edit{{region, "	if r.floorSince != 0 {\n", "	if false {\n"}},
			World: World{Regions: 2, Keys: 1, Burst: 1000, Rate: 10, Faults: []string{"all coordinators stop", "region reweighted"}, Just: true},
		},
		{
			Name: "newcomer-starts-full", Breaks: "the buckets of a region that was added start full",
			Edits: []Edit{
				{region, "	if r.floorSince != 0 {\n", "	if false {\n"},
				{region, "return r.storeEpoch != \"\" && r.storeEpoch == r.initialEpoch", "return r.storeEpoch != \"\""},
			},
			World: World{Faults: []string{"region added", "region drained"}},
		},
		{
			Name: "absent-full-at-new-floor", Breaks: "a bucket that is absent counts as full at a floor that has just grown",
			Edits: []Edit{{settle, "	case v.FloorSince == 0:\n		return Record{Tokens: v.Cold().Cap}", "	case v.FloorSince >= 0:\n		return Record{Tokens: v.Cold().Cap}"}},
			World: World{Regions: 2, Keys: 1, Burst: 1000, Rate: 10, Faults: []string{"all coordinators stop", "region reweighted"}, Just: true},
		},
		{
			Name: "kept-floor-not-kept", Breaks: "a live region need not get its connected floor of a hot key, on which a daemon without memory counts",
			Edits: []Edit{
				{"budget/leader_plan.go", "if !c.Draining && !c.Keep.Within(c.Now) {", "if false {"},
				{"budget/leader_plan.go", "keep := l.cfg.ConnectedFloor(floor, key.limit)", "keep := Share{}"},
			},
			World: World{Faults: []string{"store flushed and daemon restarts"}},
		},
		{
			Name: "nothing-fills-for-ever", Breaks: "beside a limit of 0 a change of floors is forgotten at once",
			Edits: []Edit{{"budget/floor_steps.go", "	if l.Capacity > 0 {\n", "	if l.Capacity >= 0 {\n"}},
		},
		{
			Name: "settled-too-early", Breaks: "a change of floors is forgotten before every bucket has had the time to fill",
			Edits: []Edit{{"budget/floor_steps.go", "now.Sub(s.held) >= s.fill", "now.Sub(s.held) >= 0"}},
			World: World{Regions: 2, Keys: 1, Burst: 1000, Rate: 10, Faults: []string{"all coordinators stop", "region reweighted"}, Just: true},
		},
	}
}
