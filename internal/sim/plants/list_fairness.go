package plants

// fairness are bugs that waste a limit: every world ends with a quiet time in which
// all regions have to recover and a limit that is asked for has to be used.
func fairness() []Plant {
	const (
		wants   = "budget/wants.go"
		session = "budget/leader_session.go"
		demand  = "budget/demand.go"
		answer  = "budget/leader_answer.go"
		cool    = "budget/leader_cool.go"
	)
	return []Plant{
		{
			Name: "never-grows", Breaks: "no share ever grows",
			Edits: []Edit{{"budget/leader_grow.go", "return l.regions[i].live && kr.settled(key.limit) && !(kr.lost && key.limit.LendsUnused()) && !kr.pending && kr.confirmed() == lowered", "return kr == nil"}},
		},
		{
			Name: "unchanged-not-acknowledged", Breaks: "what a Hello said and the answer left as it was is not acknowledged",
			Edits: []Edit{{session, "			key.regions[i].acked = true\n			l.touch(key)\n", "			l.touch(key)\n"}},
		},
		{
			Name: "never-renewed-again", Breaks: "a lease is renewed once in a session",
			Edits: []Edit{{answer, "return r.live && (r.renewedAt == 0 || now.Sub(r.renewedAt) >= renewEvery)", "return r.live && r.renewedAt == 0"}},
		},
		{
			Name: "grace-without-end", Breaks: "a new leader waits for silent regions for ever before it renews leases",
			Edits: []Edit{{"budget/leader_live.go", "if now.Sub(l.start) >= l.cfg.Lease/2 {", "if false {"}},
		},
		{
			Name: "silence-blocks-plan", Breaks: "when a region falls silent the others are not shrunk",
			Edits: []Edit{{"budget/divide.go", "return out, in.short() || l.worthMoving(key, in, out, now)", "return out, !in.short() && l.worthMoving(key, in, out, now)"}},
		},
		{
			Name: "home-never-yields", Breaks: "a small limit stays where it was first used, also when clients are refused elsewhere",
			Edits: []Edit{{"budget/home.go", "return now.Sub(key.homeSince) >= dwell", "return now.Sub(key.homeSince) < 0"}, {"budget/home.go", "	case d.Idle, !d.Rejecting && !key.wasShort(now):\n		return true\n", "	case d.Idle:\n		return false\n"}},
		},
		{
			Name: "home-stays-a-second", Breaks: "a home that refuses nobody keeps its limit for longer than a check elsewhere waits",
			Edits: []Edit{{"budget/home.go", "case d.Idle, !d.Rejecting && !key.wasShort(now):", "case d.Idle:"}},
		},
		{
			Name: "refusal-taken-back", Breaks: "what acknowledges a smaller share says that nobody is refused, although a check waits",
			Edits: []Edit{{"budget/region_report.go", "if homed && h.reportedRejecting", "if false && h.reportedRejecting"}},
		},
		{
			Name: "refusal-of-a-client-that-left", Breaks: "a region whose only client was refused and has left goes on asking for a share",
			Edits: []Edit{{"budget/region_report.go", "now.Sub(h.used) < waitsForShare && ", ""}},
		},
		{
			Name: "home-refuses-for-ever", Breaks: "a home that has admitted the latest request is not reported again, and seems to refuse",
			Edits: []Edit{{"budget/region_report.go", "h.queued = h.rejecting && h.served && homed", "h.queued = homed && false"}},
		},
		{
			Name: "withdrawn-tokens-lost", Breaks: "the tokens of a growth that was not sent have no room in the pool, and are lost",
			Edits: []Edit{{"budget/leader_grow.go", "lowered[i] = lowered[i].Min(kr.confirmed())", "lowered[i] = lowered[i].Min(lowered[i])"}},
		},
		{
			Name: "limit-not-told", Breaks: "a share does not say of which limit it is: a region that has not used the key releases by what it knows",
			Edits: []Edit{{answer, "Granted: kr.granted, Limit: key.limitNow(),", "Granted: kr.granted,"}},
		},
		{
			Name: "demand-admitted-only", Breaks: "demand is what was admitted: a region that rejects looks satisfied",
			Edits: []Edit{
				{demand, "d.windowOffered += rep.Offered - d.offered", "d.windowOffered += rep.Admitted - d.admitted"},
				{demand, "d.admitted, d.offered, d.rejecting = rep.Admitted, rep.Offered, rep.Rejecting", "d.admitted, d.offered, d.rejecting = rep.Admitted, rep.Offered, false"},
			},
		},
		{
			Name: "unknown-is-zero", Breaks: "unknown demand counts as none",
			Edits: []Edit{{wants, "		return int64(c.Now.Rate), int64(c.Now.Rate)\n", "		return 0, 0\n"}},
		},
		{
			Name: "slow-limit-unmeasured", Breaks: "what a region has not touched of a slow limit is lent only when its demand has been measured, five seconds later",
			Edits: []Edit{{demand, "if before == 0 && untouched(&rep, limit) {", "if before != 0 && untouched(&rep, limit) {"}},
		},
		{
			Name: "used-is-untouched", Breaks: "a region that has used some of its bucket counts as one that does not use the key",
			Edits: []Edit{{demand, "rep.Tokens > full-roundedOff && rep.Tokens <= full", "rep.Tokens <= full"}},
		},
		{
			Name: "pool-waits-for-credit", Breaks: "the second part of a slow limit comes a second after the first, although no region holds it",
			Edits: []Edit{{"budget/leader_plan.go", "moved = min(moved, lent)", "moved = max(moved, lent)"}},
		},
		{
			Name: "waits-where-nothing-comes", Breaks: "a check waits for a share of a slow limit that has been hot for long",
			Edits: []Edit{{"budget/region.go", "case right.Hot && !begun && right.Share.Burst >= floor.Burst/2:", "case right.Hot && !begun && right.Share.Burst < floor.Burst/2:"}},
		},
		{
			Name: "removal-stuck", Breaks: "a key that is asked for while its entry is being removed never becomes hot again",
			Edits: []Edit{{"budget/leader_commit.go", "		l.forget(key)\n		l.stats.Cooled++\n", "		l.stats.Cooled++\n"}},
		},
		{
			Name: "busy-for-ever", Breaks: "a region whose daemon is gone is busy for as long as its session is open",
			Edits:    []Edit{{session, "r.incarnation != h.Incarnation && now.Sub(r.lastReport) < busyAfter && !r.yieldsTo(", "r.incarnation != h.Incarnation && !r.yieldsTo("}},
			Harmless: "argued: a session without reports is closed at the end of its lease, or a lease after it was opened, so a daemon that was killed is replaced after T(1+rho) instead of three seconds",
		},
		{
			Name: "cooling-not-ended", Breaks: "a key that is used again while it cools down is not kept hot",
			Edits: []Edit{{cool, "	if key.cooling == toFloors && l.allAtFloor(key, lowered) {", "	if key.cooling == toFloors && (key.used > 0 || l.allAtFloor(key, lowered)) {"}},
		},
	}
}
