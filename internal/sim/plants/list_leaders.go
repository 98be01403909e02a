package plants

import "time"

// leaders are bugs in what a leader believes of the regions.
func leaders() []Plant {
	const (
		leader  = "budget/leader.go"
		live    = "budget/leader_live.go"
		answer  = "budget/leader_answer.go"
		cool    = "budget/leader_cool.go"
		session = "budget/leader_session.go"
	)
	return []Plant{
		{
			Name: "new-leader-counts-all-live", Breaks: "a new leader takes every region for live until it has had the time to report",
			Edits: []Edit{{live, "live := r.open && r.acked && now < r.ackedSentAt.Add(l.cfg.leaseAtLeader())",
				"live := now < l.start.Add(l.cfg.leaseAtLeader()) || r.open && r.acked && now < r.ackedSentAt.Add(l.cfg.leaseAtLeader())"}},
			World: World{Regions: 2, Keys: 1, Lease: 3 * time.Second, Faults: []string{"leader dies", "cut both ways"}, Just: true},
		},
		{
			Name: "old-leases-forgotten", Breaks: "a new leader takes it that no region holds a lease of the one before",
			Edits: []Edit{{leader, "l.regions[i].leaseEnd = now.Add(l.cfg.LeasesOver())", "l.regions[i].leaseEnd = 0"}},
		},
		{
			Name: "no-grace", Breaks: "a new leader renews leases before the regions have acknowledged anything",
			Edits:    []Edit{{live, "		if !l.regions[i].live && !l.cfg.Regions[i].Gone() {\n			return false", "		if !l.regions[i].live && !l.cfg.Regions[i].Gone() {\n			return true"}},
			Harmless: "argued: the grace keeps shares from dipping after an election and carries no safety. A lease is renewed only while what was sent and what silent regions may take back fit together; without the grace the first region to acknowledge is shrunk to make room for the others' floors, and grows again",
		},
		{
			Name: "hello-is-proof-of-life", Breaks: "a region counts as live from its Hello on",
			Edits: []Edit{{session, "r.seq, r.sentAt, r.lastReport,", "r.acked, r.ackedSentAt = true, now\n	r.seq, r.sentAt, r.lastReport,"}},
		},
		{
			Name: "sent-is-proof-of-life", Breaks: "a directive that was sent keeps a region live, acknowledged or not",
			Edits:    []Edit{{answer, "r.waiting, r.sentAt = false, now", "r.waiting, r.sentAt, r.ackedSentAt = false, now, now"}},
			World:    World{Regions: 2, Keys: 1, Faults: []string{"cut one way", "cut both ways", "all coordinators stop", "drifting clocks", "messages lost"}, Just: true},
			Harmless: "argued: it makes a region live for one held answer and one round trip longer; the third factor 1+rho of the wait is not needed for anything else and is mostly longer than that. Not seen in 300 worlds",
		},
		{
			Name: "report-is-proof-of-life", Breaks: "a region counts as live from the receipt of its acknowledgement, not from the sending of what it acknowledges",
			Edits:    []Edit{{session, "r.ackedSentAt, r.acked, r.markedAt = r.sentAt, true, now", "r.ackedSentAt, r.acked, r.markedAt = now, true, now"}},
			World:    World{Regions: 2, Keys: 1, Faults: []string{"cut one way", "cut both ways", "all coordinators stop", "drifting clocks", "messages lost"}, Just: true},
			Harmless: "argued: it makes a region live for one held answer and one round trip longer; the third factor 1+rho of the wait is not needed for anything else and is mostly longer than that. Not seen in 300 worlds",
		},
		{
			Name: "two-daemons-take-turns", Breaks: "a second daemon of a region gets a session while the first is heard",
			Edits:    []Edit{{session, "now.Sub(r.lastReport) < busyAfter && !r.yieldsTo(", "now.Sub(r.lastReport) < 0 && !r.yieldsTo("}},
			Harmless: "argued: every Hello closes the session before it and everything is sent again, so two daemons that take turns waste time and break nothing; heals when one of them dies",
		},
		{
			Name: "other-daemon-knows", Breaks: "what a region was told, and may not know of, counts as known: another daemon heard it, or the answer was lost",
			Edits: []Edit{{session, "(sent == Gen{} || sent == has.Gen)", "(sent == Gen{} || sent != Gen{})"}},
			World: World{Faults: []string{"second daemon", "daemon restarts", "messages lost", "messages reordered"}, Just: true},
		},
		{
			Name: "hello-adopts-held", Breaks: "a region that says Hello may keep the share it says it holds, whatever the ledger says",
			Edits: []Edit{{session, "a = a.Min(has.Share)", "a = has.Share"}},
			World: World{Keys: 2, Faults: []string{"second daemon", "messages lost", "cut from the leader"}, Just: true},
		},
		{
			Name: "cools-under-earlier-daemon", Breaks: "a key cools down while an earlier daemon of a region may hold a lease",
			Edits: []Edit{{cool, "(!l.regions[i].live || now < l.regions[i].coolFrom)", "!l.regions[i].live"}},
			World: World{Faults: []string{"second daemon", "daemon restarts", "all store commands stuck", "daemon paused"}, Just: true},
		},
		{
			Name: "cools-above-floor", Breaks: "every region is told that a key is cold before all shares are back at the floors",
			Edits: []Edit{{cool, "kr.sent != floor || lowered[i] != floor {", "kr.sent.Rate < 0 {"}},
		},
		{
			Name: "cools-unacknowledged", Breaks: "a key's entry goes before the regions have acknowledged that it is cold",
			Edits: []Edit{{cool, "		if !key.regions[i].cold && !l.absent(i) {\n			return true", "		if !key.regions[i].cold && !l.absent(i) {\n			continue"}},
		},
		{
			Name: "first-report-acknowledges-all", Breaks: "the first report of a session acknowledges every key, those that the Hello's answer changed too",
			Edits:    []Edit{{session, "		} else {\n			r.unchanged = append(r.unchanged, key.id)\n		}", "		}\n		r.unchanged = append(r.unchanged, key.id)"}},
			Harmless: "argued: a session opens only when all that its Hello was answered with is in the store, and the first report of it comes after",
		},
	}
}
