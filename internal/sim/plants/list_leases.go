package plants

import "time"

// leases are bugs around the lease of a region and the hand-over after it.
func leases() []Plant {
	const (
		bounds  = "budget/bounds.go"
		region  = "budget/region.go"
		step    = "budget/region_step.go"
		applied = "budget/region_apply.go"
		live    = "budget/leader_live.go"
		answer  = "budget/leader_answer.go"
		session = "budget/leader_session.go"
		settle  = "limit/settle.go"
	)
	return []Plant{
		{
			Name: "lease-from-receipt", Breaks: "a lease counts from the receipt of the directive, not from the sending of the report",
			Edits: []Edit{{applied, "r.leaseEnd = a.tSend.Add(r.cfg.Lease)", "r.leaseEnd = now.Add(r.cfg.Lease)"}},
		},
		{
			Name: "lease-without-renewal", Breaks: "every directive renews the lease, whether it says so or not",
			Edits: []Edit{{applied, "if !a.renew {", "if a.hello {"}},
		},
		{
			Name: "lease-before-applied", Breaks: "the lease holds as soon as the directive has come, before its shares are in the store",
			Edits:    []Edit{{step, "	r.inFlight = noCall\n	r.lastDirective = now\n	if r.applying", "	r.inFlight = noCall\n	r.lastDirective = now\n	if d.Renew {\n		r.leaseEnd = d.TSend.Add(r.cfg.Lease)\n	}\n	if r.applying"}},
			Harmless: "argued: the lease covers a share that is not yet smaller for a second at most, and what it covers is committed; who is to have it later waits for longer than that",
		},
		{
			Name: "floor-after-t", Breaks: "a region that hears nothing takes its floor back after T",
			Edits: []Edit{{bounds, "return c.Lengthen(c.Lengthen(c.Lengthen(2 * c.wait())))", "return c.wait()"}},
		},
		{
			Name: "floor-after-2t", Breaks: "a region that hears nothing takes its floor back after 2T: clocks count as equal",
			Edits: []Edit{
				{bounds, "return c.Lengthen(c.Lengthen(c.Lengthen(2 * c.wait())))", "return 2 * c.wait()"},
				{"internal/entitlement/frame.go", "f.heardWait = d.heardWait(tail)", "f.heardWait = 0"},
			},
			World: World{Regions: 2, Keys: 1, Lease: 10 * time.Second, RhoPPM: 100_000, Faults: []string{"cut both ways", "all coordinators stop", "drifting clocks"}, Just: true},
		},
		{
			Name: "floor-at-start", Breaks: "a daemon that starts counts as having heard nothing for ever, and has its floor at once",
			Edits: []Edit{
				{region, "blind: true, lastDirective: now,", "blind: true, lastDirective: -1 << 60,"},
				{"internal/entitlement/frame.go", "f.heardWait = d.heardWait(tail)", "f.heardWait = 0"},
			},
		},
		{
			Name: "rho-ignored-by-leader", Breaks: "the leader counts a lease as over after T on its own clock",
			Edits: []Edit{{bounds, "func (c *Config) leaseAtLeader() time.Duration { return c.Lengthen(c.Lease) }", "func (c *Config) leaseAtLeader() time.Duration { return c.Lease }"}},
			World: World{Keys: 1, Faults: []string{"cut both ways", "cut one way", "drifting clocks"}, Just: true},
		},
		{
			Name: "reclaim-without-wait", Breaks: "what a silent region holds above its floor is given away before its lease has ended",
			Edits: []Edit{{"budget/leader_plan.go", "case !r.open && r.leaseEnd == 0 &&", "case !r.live &&"}},
		},
		{
			Name: "reclaim-while-open", Breaks: "a liability falls to the floor at the lease's end although a session is open in which another could begin",
			Edits: []Edit{{"budget/leader_plan.go", "case !r.open && r.leaseEnd == 0 &&", "case r.leaseEnd == 0 &&"}},
			World: World{Keys: 2, Faults: []string{"cut both ways", "cut one way", "cut from the leader", "slow commits", "messages lost", "messages reordered"}, Just: true},
		},
		{
			Name: "told-more-without-lease", Breaks: "a session that opens without a lease is told more than the floor, whose liability may be on its way down",
			Edits:    []Edit{{session, "	if l.regions[i].leaseEnd == 0 {\n		// Its", "	if false {\n		// Its"}},
			World:    World{Keys: 2, Faults: []string{"cut both ways", "cut one way", "cut from the leader", "slow commits", "messages lost", "messages reordered"}, Just: true},
			Harmless: "not found, and not shown to be without harm: what is told without a lease is not enforced, and when a lease is renewed it is in the sum that renewals look at; but a leader that comes between the two could go by a liability that is too low. Neither search puts that together",
		},
		{
			Name: "renewal-after-lease-end", Breaks: "a session goes on, and is renewed, after the end of its lease",
			Edits: []Edit{
				{step, "		if !r.opening() {\n			r.abandonSession()\n		}\n", ""},
				{live, "r.leaseEnd, r.leaseOver = 0, r.leaseEnd\n			out = append(out, l.closeSession(i, ErrSessionClosed)...)\n", "r.leaseEnd, r.leaseOver = 0, r.leaseEnd\n"},
			},
			World: World{Keys: 2, Faults: []string{"cut both ways", "cut one way", "cut from the leader", "messages lost"}, Just: true},
		},
		{
			Name: "session-outlives-lease-at-leader", Breaks: "the leader keeps a session open after the end of its lease",
			Edits: []Edit{{live, "r.leaseEnd, r.leaseOver = 0, r.leaseEnd\n			out = append(out, l.closeSession(i, ErrSessionClosed)...)\n", "r.leaseEnd, r.leaseOver = 0, r.leaseEnd\n"}},
			World: World{Keys: 2, Faults: []string{"cut both ways", "cut one way", "cut from the leader", "messages lost"}, Just: true},
		},
		{
			Name: "session-outlives-lease-at-region", Breaks: "the region keeps its session after the end of its lease",
			Edits:    []Edit{{step, "		if !r.opening() {\n			r.abandonSession()\n		}\n", ""}},
			World:    World{Faults: []string{"cut both ways", "cut from the leader", "slow commits", "messages lost", "leader dies"}, Just: true},
			Harmless: "argued: the leader closes the session when it counts the lease as over, which is never earlier, and lowers nothing before",
		},
		{
			Name: "renewal-over-gap", Breaks: "a lost report or directive leaves the session as it is, on both sides",
			Edits: []Edit{
				{step, "	failed := r.inFlight\n	r.inFlight = noCall\n	r.abandonSession()\n", "	failed := r.inFlight\n	r.inFlight = noCall\n	if failed == helloCall {\n		r.abandonSession()\n	}\n"},
				{session, "if r.waiting || rep.Seq != r.seq+1 || rep.Ack != r.seq || l.longSilent(r, now) {", "if false {"},
			},
		},
		{
			Name: "renewal-while-overdrawn", Breaks: "leases are renewed while shares that were sent and floors that are reserved sum above the limit",
			Edits: []Edit{{answer, "return l.over == 0 && l.graceOver(now)", "return l.graceOver(now)"}},
			World: World{Keys: 1, Faults: []string{"cut both ways", "cut one way", "slow commits", "coordinator paused", "messages lost"}, Just: true},
		},
		{
			Name: "silent-share-ends-leases", Breaks: "what a silent region was sent counts when renewals ask whether a lease adds to use that sums above the limit",
			Edits: []Edit{{live, "		if l.regions[i].live {\n			sent +=", "		if true {\n			sent +="}},
		},
		{
			Name: "two-legal-plans", Breaks: "a shrink that is planned counts as sent when leases are renewed, so that a silence is answered in two steps",
			Edits:    []Edit{{live, "e := key.regions[i].sent.Max(key.shares[i].Min(l.cfg.Regions[i].Floor))", "e := key.regions[i].current().Max(key.shares[i].Min(l.cfg.Regions[i].Floor))"}},
			World:    World{Keys: 1, Faults: []string{"cut both ways", "cut one way", "slow commits", "coordinator paused", "messages lost"}, Just: true},
			Harmless: "argued: a region's own shrink always travels with the renewal of its lease, so a shrink that only waits to be sent belongs to a lease that is not renewed and ends in time",
		},
		{
			Name: "unacknowledged-shrink-counts", Breaks: "in the sum that renewals look at, a shrink counts when it is sent, not when it is acknowledged",
			Edits: []Edit{{live, "e := key.regions[i].sent.Max(key.shares[i].Min(l.cfg.Regions[i].Floor))", "e := key.regions[i].sent"}},
			World: World{Keys: 1, Faults: []string{"cut both ways", "cut one way", "slow commits", "coordinator paused", "messages lost"}, Just: true},
		},
		{
			Name: "silent-floor-not-in-sum", Breaks: "in the sum that renewals look at, a silent region counts for what it was sent, not for its floor",
			Edits: []Edit{{live, "return l.mayUse(i, key, e)", "return e"}},
			World: World{Keys: 1, Faults: []string{"cut both ways", "cut one way", "slow commits", "coordinator paused", "messages lost"}, Just: true},
		},
		{
			Name: "no-verify", Breaks: "leases are renewed without a proof of leadership after the report",
			Edits: []Edit{{answer, "proved := l.began >= r.waitSince", "proved := true"}},
			World: World{Keys: 1, Faults: []string{"leader lingers", "cut from the leader", "coordinator paused", "cut one way"}, Just: true},
		},
		{
			Name: "proof-before-report", Breaks: "a proof of leadership from before the report counts",
			Edits: []Edit{{answer, "proved := l.began >= r.waitSince", "proved := l.began > 0"}},
			World: World{Keys: 1, Faults: []string{"leader lingers", "cut from the leader", "coordinator paused", "cut one way"}, Just: true},
		},
		{
			Name: "hello-without-proof", Breaks: "a Hello is answered without a proof of leadership",
			Edits: []Edit{{session, "case l.began < r.helloAt:", "case false:"}},
			World: World{Regions: 2, Keys: 3, Faults: []string{"leader lingers", "store flushed and daemon restarts"}, Just: true},
		},
		{
			Name: "lease-not-checked-in-store", Breaks: "the store does not look whether the lease still holds",
			Edits:    []Edit{{settle, "if v.Phase == Live && now > v.Until || v.Phase", "if v.Phase"}},
			World:    World{Regions: 2, Keys: 1, Faults: []string{"store commands stuck", "all store commands stuck", "cut both ways", "daemon paused"}},
			Harmless: "argued: a decision has a deadline of half a second in the store as well, and the daemon looks at the lease before it calls; what is left is within the slack of the hand-over. Without both, see no-deadlines",
		},
		{
			Name: "floor-not-checked-in-store", Breaks: "the store does not look whether the floor may be taken back yet",
			Edits: []Edit{{settle, "now > v.Until || v.Phase == Floor && now < v.begins() {", "now > v.Until {"}},
			World: World{Regions: 2, Keys: 1, Faults: []string{"store commands stuck", "all store commands stuck", "cut both ways", "daemon paused"}},
		},
		{
			Name: "no-deadlines", Breaks: "the store looks at no deadline at all: what the daemon believed when it called is what counts",
			Edits: []Edit{
				{settle, "if v.Phase == Live && now > v.Until || v.Phase == Floor && now < v.begins() {", "if v.Phase > Floor {"},
				{"internal/sim/site/take.go", "now > c.deadline", "c.deadline < 0 && now < 0"},
			},
			World: World{Regions: 2, Keys: 1, Faults: []string{"store commands stuck", "all store commands stuck", "cut both ways", "daemon paused"}},
		},
		{
			Name: "decision-without-deadline", Breaks: "a decision that got stuck on its way to the store is made whenever it arrives",
			Edits: []Edit{{"internal/sim/site/take.go", "now > c.deadline", "c.deadline < 0 && now < 0"}},
			World: World{Regions: 2, Keys: 1, Faults: []string{"store commands stuck", "all store commands stuck", "cut both ways", "daemon paused"}},
		},
		{
			Name: "change-without-deadline", Breaks: "a change of a share that got stuck is made after the leader was told that it was not",
			Edits: []Edit{{"limit/apply.go", "if c.Deadline != 0 && now > c.Deadline {", "if c.Deadline < 0 {"}},
			World: World{Keys: 1, Faults: []string{"store commands stuck", "all store commands stuck", "messages lost", "daemon restarts"}, Just: true},
		},
	}
}
