package plants

// timing are bugs while the lease and rho are changed.
func timing() []Plant {
	const (
		file   = "budget/timing.go"
		answer = "budget/leader_answer.go"
	)
	changes := World{Regions: 2, Keys: 1, Faults: []string{"timing changed", "cut both ways", "all coordinators stop"}, Just: true}
	return []Plant{
		{
			Name: "longer-lease-at-once", Breaks: "a longer lease is granted before every region waits for it",
			Edits: []Edit{{file, "c.LeaseNext = min(c.Lease, lease),", "c.LeaseNext = lease,"}, {file, "max(c.wait(), lease), lease", "c.wait(), lease"}},
			World: changes,
		},
		{
			Name: "shorter-wait-at-once", Breaks: "when the lease becomes shorter, leases that run on are not waited for",
			Edits: []Edit{{file, "max(c.wait(), lease), lease", "lease, lease"}},
			World: changes,
		},
		{
			Name: "timing-unasked", Breaks: "a longer lease is granted, and a larger rho relied on, before the regions have acknowledged it",
			Edits: []Edit{{file, "(c.RhoRising || next > c.Lease) && !c.allAcknowledged(p.Acknowledged)", "p.Acknowledged == nil"}},
			World: changes,
		},
		{
			Name: "longer-leases-not-over", Breaks: "a shorter lease is waited for while longer ones run",
			Edits: []Edit{{"budget/floor_steps.go", "now.Sub(s.began) >= l.cfg.LeasesOver()", "true"}},
			World: changes,
		},
		{
			Name: "longer-lease-of-another", Breaks: "a renewal forgets the longer lease that another daemon of the region may hold",
			Edits: []Edit{{answer, "max(r.leaseEnd, now.Add(l.cfg.leaseAtLeader()))", "now.Add(l.cfg.leaseAtLeader())"}},
			World: World{Regions: 2, Keys: 1, Faults: []string{"timing changed", "second daemon", "cut both ways"}, Just: true},
		},
	}
}
