package plants

import "time"

// regions are bugs in what a region's daemon believes.
func regions() []Plant {
	const (
		step    = "budget/region_step.go"
		applied = "budget/region_apply.go"
		region  = "budget/region.go"
		settle  = "limit/settle.go"
		apply   = "limit/apply.go"
	)
	return []Plant{
		{
			Name: "alone-beside-another", Breaks: "a daemon that knows of another one of its region admits by its emergency limit",
			Edits: []Edit{{"internal/roster/roster.go", "	if len(r.Others(now)) > 0 || !r.Certainty(now).Suffices(inSession) {", "	if false {"}},
			World: World{Faults: []string{"second daemon", "store lost for one daemon", "cut both ways", "leader dies"}, Just: true, Lease: 3 * time.Second},
		},
		{
			Name: "alone-before-the-list", Breaks: "a daemon admits by its emergency limit though it has not read the list of a store that it reaches",
			Edits: []Edit{{"internal/roster/roster.go", "func (r *Roster) Unread() bool { return r.reached && r.number == 0 }", "func (r *Roster) Unread() bool { return false }"}},
			World: World{Faults: []string{"second daemon", "all coordinators stop", "all store commands stuck", "messages lost", "cut both ways"}, Just: true, Lease: 3 * time.Second},
		},
		{
			Name: "alone-by-session", Breaks: "a daemon that has the session admits by its emergency limit though it has not read any list of its store",
			Edits: []Edit{{"internal/roster/roster.go", "c == Certain || c == CertainInSession && inSession", "c == Certain || inSession"}},
		},
		{
			Name: "alone-in-other-contents", Breaks: "a daemon whose store has other contents admits by its emergency limit though it has not read their list",
			Edits: []Edit{{"internal/roster/roster.go", "func (r *Roster) Unread() bool { return r.reached && r.number == 0 }", "func (r *Roster) Unread() bool { return r.reached && r.readAt == 0 }"}},
			World: World{Faults: []string{"second daemon", "store lost for one daemon", "store flushed"}, Just: true, Lease: 3 * time.Second},
		},
		{
			Name: "alone-before-a-word", Breaks: "a daemon that is new in the list admits by its emergency limit while it waits for a coordinator's word",
			Edits: []Edit{{"internal/roster/roster.go", "case r.Unread() || r.readAt != 0 && r.awaitsWord(now):", "case r.Unread():"}},
			World: World{Faults: []string{"second daemon", "store flushed", "all store commands stuck", "region's machine suspended", "messages lost", "leader dies", "leader lingers"}, Just: true, Lease: 3 * time.Second},
		},
		{
			Name: "numbers-from-one", Breaks: "a new list of daemons numbers from one on, so a daemon that read a lost list seems to have read of one that is new",
			Edits: []Edit{{"internal/roster/list.go", "	if l.Last == 0 {", "	if false {"}},
		},
		{
			Name: "alone-in-an-empty-list", Breaks: "a new daemon that found nobody in a list that was lost does not wait for those that come back to it",
			Edits: []Edit{{"internal/roster/roster.go", "r.everyoneReads(now) || r.seen && !r.awaitsWord(now)", "r.seen || r.everyoneReads(now)"}},
		},
		{
			Name: "waits-a-second", Breaks: "a daemon that a coordinator tells to wait spends between two of its words",
			Edits: []Edit{{"internal/roster/roster.go", "r.waits = now.Add(waitFor)", "r.waits = now.Add(wordFor)"}},
		},
		{
			Name: "old-answer-vouches", Breaks: "a report that was answered before a pause vouches for a daemon, though it may have lost the session",
			Edits: []Edit{{"regional/internal/session/others.go", "if r.Told(epoch, ids, now); o.emergency.HasSession() {", "if r.Told(epoch, ids, now); true {"}},
		},
		{
			Name: "report-does-not-vouch", Breaks: "a daemon in session that has not read the list for long waits for a daemon in it that is gone",
			Edits: []Edit{{"regional/internal/session/others.go", "if r.Told(epoch, ids, now); o.emergency.HasSession() {", "if r.Told(epoch, ids, now); false {"}},
		},
		{
			Name: "refusal-names-nobody", Breaks: "a daemon that is refused a session is not told of the one that has it, of which the next leader may not know",
			Edits: []Edit{{"regional/internal/session/others.go", "o.change(func(r *roster.Roster, now budget.Instant) { r.Told(epoch, ids, now) })", "o.change(func(r *roster.Roster, now budget.Instant) {})"}},
		},
		{
			Name: "home-keeps-by-floors", Breaks: "a region with a large floor keeps a request of a limit that has a home, so another home may come to hold less than one",
			Edits: []Edit{{"budget/bounds.go", "	if c.Homed(limit) {\n		return Share{}\n	}\n	minBurst", "	minBurst"}},
			World: World{Faults: []string{"region reweighted"}, Just: true},
		},
		{
			Name: "spends-unread", Breaks: "a new daemon spends by the store before the others have read of it",
			Edits: []Edit{{"internal/roster/roster.go", "	return r.readAt != 0 && r.seen && !r.awaitsWord(now)", "	return true"}},
			World: World{Faults: []string{"second daemon", "store lost for one daemon", "cut both ways"}, Just: true, Lease: 3 * time.Second},
		},
		{
			Name: "unmarked-is-heard", Breaks: "reports of a daemon whose store takes no mark let the region count as heard, though another daemon of it is known",
			Edits: []Edit{{"budget/leader_daemons.go", "	return s.Storeless && (len(s.Others) > 0 || len(d.daemonsExcept(s.Daemon, now)) > 0)", "	return false"}},
			World: World{Faults: []string{"second daemon", "store lost for one daemon"}, Just: true, Lease: 3 * time.Second},
		},
		{
			Name: "claimant-ignored", Breaks: "a daemon gets a session beside another one that says it admits by its emergency limit and has not heard the answer yet",
			Edits: []Edit{{"budget/leader_session.go", "	if busy || r.daemons.claimed(h.Standing.Daemon, now) {", "	if busy {"}},
			World: World{Faults: []string{"second daemon", "store lost for one daemon", "messages lost", "cut one way", "leader dies"}, Just: true, Lease: 3 * time.Second},
		},
		{
			Name: "welcome-to-another-daemon", Breaks: "of two daemons of a region that count their Hellos alike, the later one has the refusal that is for the earlier one",
			Edits: []Edit{
				{"coordinator/internal/leader/loop.go", "w.region == ok.Region && w.incarnation == e.Incarnation && ", "w.region == ok.Region && "},
				{"coordinator/internal/leader/loop.go", "w.region == refusal.Region && w.incarnation == refusal.Incarnation && ", "w.region == refusal.Region && "},
			},
		},
		{
			Name: "old-nonce-opens", Breaks: "the answer to an older Hello opens a session",
			Edits:    []Edit{{step, "if r.inFlight != helloCall || e.OK.Nonce != r.helloNonce {", "if r.inFlight != helloCall {"}},
			World:    World{Faults: []string{"messages repeated", "messages reordered", "messages lost", "daemon restarts", "cut one way"}, Just: true},
			Harmless: "argued: the leader has closed the session of an older Hello, so no report of it is taken; what its answer told was within liabilities that nothing has lowered since",
		},
		{
			Name: "old-leader-believed", Breaks: "a Hello's answer is taken from a leader older than one that was heard",
			Edits:    []Edit{{step, "if e.OK.Epoch < r.highestEpoch || e.Config", "if e.Config"}},
			World:    World{Faults: []string{"messages repeated", "messages reordered", "leader lingers", "cut from the leader", "coordinator paused"}, Just: true},
			Harmless: "argued: a Hello is answered under a proof of leadership that began after it came, and only the answer to the latest one counts, so a deposed leader has nothing to answer. Without the proof, see hello-without-proof",
		},
		{
			Name: "hello-of-lost-contents", Breaks: "the answer to a Hello that told of other store contents opens a session",
			Edits:    []Edit{{step, " || r.helloEpoch != r.storeEpoch {", " {"}},
			World:    World{Faults: []string{"store flushed", "store rolled back", "messages reordered", "messages lost"}, Just: true},
			Harmless: "argued: the records that the answer takes for granted are missing from the new contents, and the first call that misses one ends the session",
		},
		{
			Name: "busy-takes-floor", Breaks: "a daemon that is refused, because another one is heard, goes on waiting for its floor",
			Edits: []Edit{
				{step, "			r.lastDirective = now\n		}\n		if e.Config != nil", "			_ = now\n		}\n		if e.Config != nil"},
				{settle, "if v.Phase == Floor && v.HeardWait != 0 && v.Heard != 0 {", "if false {"},
			},
			World: World{Faults: []string{"second daemon", "cut both ways"}},
		},
		{
			Name: "heard-ignored", Breaks: "the store does not look whether another daemon of the region was heard",
			Edits: []Edit{{settle, "if v.Phase == Floor && v.HeardWait != 0 && v.Heard != 0 {", "if false {"}},
			World: World{Faults: []string{"second daemon", "cut both ways"}},
		},
		{
			Name: "heard-by-renewals-only", Breaks: "only a renewal tells the store that the region is heard, although any directive makes the leader count on it",
			Edits:    []Edit{{applied, "mark := first && a.renew || r.marked == 0 || now.Sub(r.marked) >= MarkEvery", "mark := first && a.renew"}},
			World:    World{Faults: []string{"second daemon", "cut from the leader", "leader dies", "cut both ways"}, Just: true},
			Harmless: "argued: a leader that answers without renewing lends what it must not only for as long as another region is silent, at most a lease, and the store waits a second longer than the daemon. Not seen in 98 worlds",
		},
		{
			Name: "failed-share-not-believed", Breaks: "a smaller share that may not have reached the store is not believed",
			Edits: []Edit{{applied, "	r.lowerBeliefs()\n	r.applying = nil\n", "	r.applying = nil\n"}},
			World: World{Faults: []string{"store commands stuck", "store flushed", "second daemon", "all store commands stuck"}, Just: true},
		},
		{
			Name: "lost-answer-not-believed", Breaks: "a smaller share in an answer that was not applied when the store's contents were lost is not believed",
			Edits: []Edit{{step, "		if r.applying != nil && !r.lowerBeliefs() && opening {", "		if r.applying != nil && len(r.hot) == 0 && opening {"}},
			World: World{Faults: []string{"store flushed", "second daemon", "store flushed and daemon restarts", "cut both ways"}, Just: true, Lease: 3 * time.Second},
		},
		{
			Name: "lost-answer-names-no-keys", Breaks: "keys in an answer that was not applied when the store's contents were lost count as cold",
			Edits: []Edit{{step, "			r.blind = true\n", "			r.blind = r.blind || false\n"}},
			World: World{Faults: []string{"store flushed", "second daemon", "store flushed and daemon restarts", "cut both ways"}, Just: true, Lease: 3 * time.Second},
		},
		{
			Name: "failed-share-acknowledged", Breaks: "a share that may not have reached the store is acknowledged",
			Edits: []Edit{{applied, "	case failed || len(a.left) > 0:", "	case false:"}},
		},
		{
			Name: "first-part-counts", Breaks: "a directive counts when the first part of it is applied",
			Edits: []Edit{{applied, "case len(a.rest) > 0 || len(a.useChecks) > 0:", "case false:"}},
		},
		{
			Name: "watermark-with-each-part", Breaks: "a region counts as knowing all generations up to those of a part, before the rest of the directive is applied",
			Edits: []Edit{{applied, "		if a.watermark.Before(act.Gen) {\n			a.watermark = act.Gen\n", "		if r.watermark.Before(act.Gen) {\n			r.watermark = act.Gen\n"}},
			World: World{Faults: []string{"second daemon", "store commands stuck", "messages lost"}, Just: true},
		},
		{
			Name: "progress-acknowledges-all", Breaks: "a report of a region that is still applying what its session begins with acknowledges all of it",
			Edits: []Edit{{"budget/leader_session.go", "	if rep.Opening {\n", "	if false {\n"}},
		},
		{
			Name: "told-while-opening", Breaks: "a region that is still applying what its session begins with is told shares, and its lease renewed",
			Edits: []Edit{
				{"budget/leader_answer.go", "	if r.opening {\n", "	if false {\n"},
				{"budget/leader_answer.go", "news := !r.opening && (len(r.outbox) > 0 || len(r.cold) > 0)", "news := len(r.outbox) > 0 || len(r.cold) > 0"},
			},
		},
		{
			Name: "opening-not-kept", Breaks: "a session that is being opened ends with the lease that the region had before, however its region gets on",
			Edits: []Edit{{"budget/leader_session.go", "		l.keepSession(r, now)\n", ""}},
		},
		{
			Name: "new-leader-makes-room-at-once", Breaks: "a new leader makes room for the floors of regions that it has not heard for a moment",
			Edits: []Edit{{"budget/leader_plan.go", "	if !l.graceOver(now) {\n", "	if false {\n"}},
		},
		{
			Name: "void-directive-counts", Breaks: "a directive counts although its session was closed while its shares were applied",
			Edits:    []Edit{{applied, "	case a.void:", "	case false:"}},
			World:    World{Faults: []string{"store commands stuck", "store flushed", "store rolled back", "all store commands stuck"}, Just: true},
			Harmless: "argued: a directive whose session was closed meanwhile was applied whole, and the leader counts with the lease that it renewed; what is void is only its acknowledgement, which the closed session does not send",
		},
		{
			Name: "stale-change-acknowledged", Breaks: "a change that the store refuses, because it has seen a later one, counts as made",
			Edits:    []Edit{{"internal/sim/site/store.go", "Failed: a.Late || a.Stale,", "Failed: a.Late,"}},
			World:    World{Faults: []string{"second daemon", "all store commands stuck", "daemon paused", "store commands stuck", "messages lost"}, Just: true},
			Harmless: "argued: a change that arrives in time is never older than the record",
		},
		{
			Name: "stale-change-made", Breaks: "the store makes a change although it has seen a later one",
			Edits: []Edit{{apply, "r.Stamp == c.View.Stamp && r.Gen >= c.Gen && !again {", "c.Gen == 0 && !again {"}},
			World: World{Faults: []string{"second daemon", "all store commands stuck", "daemon paused", "store commands stuck", "messages lost"}, Just: true},
		},
		{
			Name: "later-record-spent", Breaks: "a later share, of which the caller has not heard, is always spent whole",
			Edits: []Edit{{settle, "		r.Share = r.Share.Min(v.Share)\n	}\n", "	}\n"}},
			World: World{Faults: []string{"second daemon", "all store commands stuck", "daemon paused", "store commands stuck", "messages lost"}, Just: true},
		},
		{
			Name: "unheard-record-spent", Breaks: "what one daemon of a region was told counts as known to the next one, and a record of which it has not heard is spent whole",
			Edits: []Edit{
				{"budget/leader_session.go", "(sent == Gen{} || sent == has.Gen)", "(sent == Gen{} || sent != Gen{})"},
				{settle, "		r.Share = r.Share.Min(v.Share)\n	}\n", "	}\n"},
			},
			World: World{Regions: 2, Faults: []string{"second daemon", "daemon restarts", "messages lost"}, Just: true},
		},
		{
			Name: "session-not-known", Breaks: "a share of an earlier session of the same leader, of which the caller has not heard, is spent whole",
			Edits: []Edit{{"limit/view.go", "return r.Gen > v.Known && r.Gen", "return r.Gen"}},
			World: World{Faults: []string{"second daemon", "daemon restarts", "store's clock set", "messages lost", "leader dies"}, Just: true},
		},
		{
			Name: "later-share-of-earlier-limit", Breaks: "a later share in tokens is spent whole, although the limit was lowered since",
			Edits: []Edit{{"limit/view.go", "r.At >= v.RuleSince && ", ""}},
			World: World{Faults: []string{"second daemon", "limit raised", "limit lowered", "cut from the leader", "leader lingers"}, Just: true},
		},
		{
			Name: "later-share-of-long-ago", Breaks: "a later share in tokens is spent whole, although it was last used before the last second",
			Edits: []Edit{{"limit/view.go", " && now-r.At <= sharesLast", ""}},
			World: World{Faults: []string{"second daemon", "limit raised", "limit lowered", "cut from the leader", "leader lingers"}, Just: true},
		},
		{
			Name: "later-leader-covered", Breaks: "a lease covers what a later leader sent to another daemon of the region",
			Edits: []Edit{{"limit/view.go", " && r.Gen>>epochBits == v.Known>>epochBits", ""}},
			World: World{Faults: []string{"second daemon", "cut one way", "cut from the leader", "store flushed", "all coordinators stop", "leader dies", "leader lingers", "messages reordered", "store commands stuck"}, Just: true, Lease: 3 * time.Second},
		},
		{
			Name: "later-record-ignored", Breaks: "a caller that has not heard of a record's share spends its own",
			Edits: []Edit{{settle, "case v.Hot && r.Gen == v.Gen:", "case v.Hot:"}, {settle, "	case v.Hot:\n		if phase == Floor {", "	case v.Blind && v.Hot:\n		if phase == Floor {"}},
		},
		{
			Name: "cut-off-obeys-no-other", Breaks: "a cut-off caller takes the floor of a key of which another daemon has heard since",
			Edits:    []Edit{{settle, "f.before = r.Share.Min(v.Floor)\n		}", "f.before = v.Floor\n		}"}},
			World:    World{Faults: []string{"second daemon", "cut both ways"}, Just: true},
			Harmless: "argued: the store lets nobody have the floor before the whole region was unheard for as long as it takes, and then the later share is as old. Without that, see heard-ignored",
		},
		{
			Name: "cold-caller-ignores-share", Breaks: "a caller for whom a key is cold spends its floor although the store knows of a share",
			Edits: []Edit{{settle, "f.enforced = r.Share.Min(v.Floor)", "f.enforced = v.Floor"}},
		},
		{
			Name: "limbo-keeps-share", Breaks: "a region keeps its whole share after the end of its lease",
			Edits: []Edit{{settle, "		return share.Min(floor)\n", "		return share\n"}},
		},
		{
			Name: "watermark-zero", Breaks: "a caller for whom a key is cold does not say what it has heard, so records of later shares look older",
			Edits: []Edit{{region, "Watermark: r.watermark, Blind", "Watermark: Gen{Epoch: r.highestEpoch, Counter: 1<<counterBits - 1}, Blind"}},
			World: World{Faults: []string{"second daemon", "all store commands stuck", "daemon paused", "store commands stuck", "messages lost"}, Just: true},
		},
	}
}
