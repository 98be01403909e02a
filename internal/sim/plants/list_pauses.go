package plants

import "time"

// pauses are bugs of daemons that are put aside: the clock is read, and what it allowed is
// spent later.
func pauses() []Plant {
	stopped := World{
		Regions: 2, Keys: 2, Lease: 3 * time.Second,
		Faults: []string{"region's clocks stopped", "cut from the leader", "leader dies", "leader lingers", "slow commits"}, Just: true,
	}
	return []Plant{
		{
			Name: "chunk-by-an-earlier-clock", Breaks: "a check goes by the clock that it read when it came, however long its process has paused or it has waited for a lock",
			Edits: []Edit{{"regional/internal/engine/engine.go", "l.since(now, wall) >= s.ChunksEnd", "now >= s.ChunksEnd"}},
		},
		{
			Name: "emergency-outlives-lease", Breaks: "the emergency limit goes by a right whose lease has ended since it was read",
			Edits: []Edit{{"regional/internal/emergency/emergency.go", "	case a.Right.Until != 0 && now >= a.Right.Until:\n", "	case a.Right.Until < 0:\n"}},
		},
		{
			Name: "stop-not-seen", Breaks: "a region whose clock was stopped goes on by its lease, though the leader's clock shows it",
			Edits: []Edit{{"internal/boottime/reference.go", "stopped = max(0, passed-stretched(received.Sub(r.sent), rhoPPM))", "stopped = 0"}},
			World: stopped,
		},
		{
			Name: "late-reading-kept", Breaks: "the leader's clock is compared with its last reading alone, also if that answer came late",
			Edits: []Edit{{"internal/boottime/reference.go", "if stopped == 0 && stretched(sent.Sub(r.sent), rhoPPM) < passed {", "if stopped < 0 {"}},
		},
		{
			Name: "stopped-lease-goes-on", Breaks: "a region that learns that its clock was stopped ends its session and keeps its lease",
			Edits: []Edit{{"budget/region_step.go", "	case ClockStopped:\n		r.leaseEnd = 0\n", "	case ClockStopped:\n"}},
			World: stopped,
		},
		{
			Name: "memory-by-an-earlier-clock", Breaks: "the memory store decides a group after the deadline of its call, if it has waited for a lock until then",
			Edits: []Edit{{"regional/store/memory/memory.go", "	if err := late(g, now); err != nil {\n		return 0, err\n	}\n	m.takeLocked", "	m.takeLocked"}},
		},
	}
}

// promotions are bugs of stores whose servers fail over, and back, with connections that stay
// and an epoch that is replicated.
func promotions() []Plant {
	return []Plant{
		{
			Name: "late-adjust", Breaks: "redis charges or refunds by a call that reached it after its deadline, by limits that have changed since",
			Edits: []Edit{{"lua/adjust.lua", "if deadline ~= 0 and now > deadline then", "if false then"}},
		},
		{
			Name: "late-adjust-in-memory", Breaks: "the embedded store charges or refunds by a call that it decides after its deadline",
			Edits: []Edit{{"regional/store/memory/reserve.go", "parts[0].View.Deadline != 0 && now > parts[0].View.Deadline", "now < 0"}},
		},
		{
			Name: "promotion-keeps-contents", Breaks: "a replica that takes over without the latest writes is spent from by the epoch that it has",
			Edits: []Edit{{"internal/sim/site/store.go", "return s.named != s.promotions", "return false"}},
			World: World{Keys: 2, Faults: []string{"store rolled back"}, Just: true},
		},
		{
			Name: "script-ignores-promotion", Breaks: "the scripts do not look whether their server was promoted since its contents were named",
			Edits: []Edit{{"lua/prelude.lua", "if second and second ~= '00000000' and", "if second == '' and"}},
		},
		{
			Name: "list-ignores-promotion", Breaks: "the list of daemons is read by the epoch of before a promotion, which may have lost the latest of them",
			Edits: []Edit{{"lua/roster.lua", "if second and second ~= '00000000' and", "if second == '' and"}},
		},
		{
			Name: "promotion-not-named", Breaks: "a server that was promoted keeps the epoch of before",
			Edits: []Edit{{"lua/epoch.go", "return ok && of == servers && !slices.ContainsFunc(promotions, unnamed)", "_ = unnamed\n	return ok && of == servers"}},
		},
	}
}
