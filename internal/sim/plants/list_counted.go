package plants

import (
	"time"

	"aliquot/limit"
)

// counted are bugs of limits that count: windows, logs, slots.
func counted() []Plant {
	const (
		use    = "limit/use.go"
		settle = "limit/settle.go"
		leader = "budget/leader_use.go"
		fenced = "budget/leader_fenced.go"
		region = "budget/region_use.go"
	)
	return []Plant{
		{
			Name: "use-acknowledged-early", Breaks: "a share that shrinks below what is in use is acknowledged at once",
			Edits: []Edit{{region, "	if res.Due > 0 {\n", "	if res.Due < 0 {\n"}},
		},
		{
			Name: "use-counts-as-acknowledged", Breaks: "the leader takes the report of a share for its acknowledgement although use outlasts it",
			Edits: []Edit{{leader, "	kr.outlasted = used > rep.Share.Burst\n", "	kr.outlasted = used < 0\n"}},
		},
		{
			Name: "use-by-what-a-request-told", Breaks: "under new rules an idle region reports that all of a limit is in use, as no request has said the limit",
			Edits:    []Edit{{region, "partOf(res.InUse, res.Capacity)", "partOf(res.InUse, h.limit.Capacity)"}},
			Harmless: "argued: a share brings its limit, so the region knows the limit before its store says what is in use",
		},
		{
			Name: "use-is-no-share", Breaks: "a region whose use outlasts its share gets nothing of what nobody uses until that use has ceased to count",
			Edits: []Edit{{"budget/leader_grow.go", "kr.settled(key.limit) && !(", "kr.acked && !("}},
		},
		{
			Name: "no-tail", Breaks: "what was used under a lease counts as gone with the lease",
			Edits: []Edit{{leader, "return l.cfg.Lengthen(tail)", "return 0 * tail"}},
		},
		{
			Name: "tail-of-an-older-version", Breaks: "a window that was lengthened counts as long as before until a region tells the leader",
			Edits: []Edit{{leader, "if key.limit.Capacity == 0 || key.rules.before(l.newest) {", "if key.limit.Capacity == 0 {"}},
		},
		{
			Name: "brought-tail-forgotten", Breaks: "a leader that does not know a limit waits for its rule's window, although the request brought a limit with a longer one",
			Edits: []Edit{{"coordinator/internal/leader/floors.go", "if rule.RequestLimit && rule.Limit.Algorithm.Counts() {", "if false {"}},
		},
		{
			Name: "staged-tail-forgotten", Breaks: "a leader waits for the window of the version in force, although a staged one has a longer window",
			Edits: []Edit{{"budget/leader.go", "l.rulesTold(RulesState{Version: max(e.Version, e.Newest)})", "l.rulesTold(RulesState{Version: e.Version})"}},
		},
		{
			Name: "limit-by-later-rules", Breaks: "the limit of a request for a key counts as told by rules that the region took afterwards",
			Edits: []Edit{{"budget/leader_commit.go", "l.learn(key, rep.Limit, asked.rules)", "l.learn(key, rep.Limit, l.regions[asked.region].rules)"}},
		},
		{
			Name: "floor-without-tail", Breaks: "a region takes its floor back before what others used of it has left their windows",
			Edits: []Edit{
				{"budget/region.go", "r.cfg.FloorAfterUse(limit.Tail)", "r.cfg.FloorAfter()"},
				{settle, "if v.Phase == Floor && v.HeardWait != 0 && v.Heard != 0 {", "if false {"},
			},
			World: World{Keys: 2, Faults: []string{"cut both ways", "all coordinators stop", "messages lost"}, Just: true},
		},
		{
			Name: "floor-moves-without-tail", Breaks: "a smaller floor is acknowledged before what was used of it has left the windows",
			Edits: []Edit{{"budget/leader_status.go", "return adoptAfter + c.Lengthen(tail)", "return adoptAfter"}},
			World: World{Faults: []string{"region reweighted", "region drained"}, Just: true},
		},
		{
			Name: "cools-to-old-floor", Breaks: "a key cools down to the floor that a region is giving up: what it used of that since it agreed is not waited for",
			Edits: []Edit{
				{"budget/leader_cool.go", "l.queueAction(i, key, l.cfg.Regions[i].Told)", "l.queueAction(i, key, l.cfg.Regions[i].Floor)"},
				{"budget/leader_cool.go", "&key.regions[i], l.cfg.Regions[i].Told", "&key.regions[i], l.cfg.Regions[i].Floor"},
				{"budget/leader_plan.go", "out[i] = l.cfg.Regions[i].Told", "out[i] = c.Floor"},
			},
			World: World{Faults: []string{"region reweighted", "region drained"}},
		},
		{
			Name: "fenced-use-forgotten", Breaks: "what a fenced region used counts as gone with it",
			Edits: []Edit{{fenced, "	l.delay(key)\n	return true\n", "	return false\n"}},
			World: World{Faults: []string{"region fenced", "region added"}},
		},
		{
			Name: "fenced-floor-forgotten", Breaks: "what a region used of its floor before it was fenced, which another one had borrowed, counts as gone",
			Edits: []Edit{{fenced, "	return l.fenced\n", "	return Share{}\n"}},
			World: World{Faults: []string{"region fenced", "all coordinators stop"}, Just: true},
		},
		{
			Name: "fenced-floor-freed-by-add", Breaks: "what a fenced region used of its floor counts as gone once the region is added again",
			Edits: []Edit{{fenced, "!r.Joined && r.FloorVersion != 0", "r.Fenced && r.FloorVersion != 0"}},
		},
		{
			Name: "fenced-without-a-floor", Breaks: "what a region used that was fenced before it had a floor counts as gone with it",
			Edits: []Edit{{fenced, "	if !l.anyFenced || now", "	if l.fenced == (Share{}) || now"}},
		},
		{
			Name: "waits-without-a-fence", Breaks: "after any change of floors no share of a counting limit grows for a tail",
			Edits: []Edit{{fenced, "	if !l.anyFenced || now", "	if now"}},
		},
		{
			Name: "fenced-floor-leased", Breaks: "a lease goes on for shares beside the floor that a fenced region may have used",
			Edits: []Edit{{"budget/leader_live.go", "	rate, burst, sent := int64(fenced.Rate), int64(fenced.Burst), int64(0)\n", "	rate, burst, sent := int64(fenced.Rate)*0, int64(0), int64(0)\n"}},
		},
		{
			Name: "grow-in-mid-window", Breaks: "rights of a fixed window that are gained count in the window in which others may have used them",
			Edits: []Edit{{use, "case most > had && out.HeldLabel != current:", "case most < 0:"}},
			World: World{Keys: 2, Algorithms: []string{limit.FixedWindow.String()}, Faults: []string{"messages lost"}, Just: true},
		},
		{
			Name: "first-window-too-early", Breaks: "rights that are gained count from a window on in which others may have used them",
			Edits: []Edit{{leader, "	return last\n", "	return min(last, 1)\n"}},
			World: World{Keys: 2, Algorithms: []string{limit.FixedWindow.String()}, Faults: []string{"messages lost"}, Just: true},
		},
		{
			Name: "former-window-counts", Breaks: "rights that are gained after a window was lengthened count from the number on that the former windows have",
			Edits: []Edit{{leader, "case reported != 0 && key.limit.Capacity > 0 && kr.labelTail != key.limit.Tail:", "case false:"}},
		},
		{
			Name: "former-window-kept", Breaks: "the number of a former window stays the highest that a region has told",
			Edits: []Edit{{leader, "	if tail != kr.labelTail {\n", "	if kr.labelTail = tail; kr.label == 0 {\n"}},
		},
		{
			Name: "window-of-another-limit", Breaks: "a region takes the number of another limit's window for one of its own",
			Edits: []Edit{{"budget/region_apply.go", "	if act.Limit.Tail != 0 && act.Limit.Tail != c.Limit.Tail {\n", "	if false {\n"}},
		},
		{
			Name: "window-without-tail", Breaks: "a report does not say of which windows its number is",
			Edits: []Edit{{"budget/region_report.go", "			if label != 0 {\n				limit.Tail = h.labelTail\n			}\n", ""}},
		},
		{
			Name: "store-window-without-tail", Breaks: "a change of a share does not say of which windows the store's number is",
			Edits: []Edit{{"regional/internal/session/apply.go", "Label: a.Label, Tail: carried.Charges[i].Limit.Tail(),", "Label: a.Label,"}},
		},
		{
			Name: "floor-use-forgotten", Breaks: "a region that was cut off and is back has used nothing of its floor",
			Edits: []Edit{{leader, "if !l.regions[i].live || !kr.useReported && l.tailOf(key) > 0 {", "if !l.regions[i].live {"}},
			World: World{Regions: 2, Keys: 2, Lease: 3 * time.Second, Algorithms: []string{limit.SlidingLog.String()}, Faults: []string{"cut both ways"}, Just: true},
		},
		{
			Name: "use-given-away", Breaks: "what outlasts a share, beyond its liability, may go to others",
			Edits: []Edit{{leader, "return atLeast.Max(Share{Burst: kr.inUse})", "return atLeast"}},
			World: World{Faults: []string{"cut both ways", "all coordinators stop"}},
		},
		{
			Name: "hello-acknowledges-use", Breaks: "a share of rights that a Hello told and the answer left as it was is acknowledged unseen",
			Edits: []Edit{{"budget/leader_session.go", "a == liability && l.tailOf(key) == 0 {", "a == liability {"}},
			World: World{Keys: 2, Faults: []string{"cut both ways", "all coordinators stop", "messages lost"}, Just: true},
		},
		{
			Name: "one-window-too-short", Breaks: "what was used of a fixed window counts as gone after one window, as if all clocks showed the same",
			Edits: []Edit{{"limit/algorithm.go", "{name: \"fixed_window\", counts: true, tail: 2}", "{name: \"fixed_window\", counts: true, tail: 1}"}},
			World: World{Keys: 2, Algorithms: []string{limit.FixedWindow.String()}, Faults: []string{"cut both ways", "drifting clocks", "all coordinators stop"}, Just: true},
		},
		{
			Name: "previous-window-forgotten", Breaks: "a sliding counter forgets the window before",
			Edits: []Edit{{use, "out.Cur, out.Prev = 0, u.Cur", "out.Cur, out.Prev = 0, 0"}},
		},
		{
			Name: "window-starts-empty", Breaks: "a hot limit that counts starts with nothing in use when its memory is lost",
			Edits: []Edit{{settle, "			r.Use = blocked(v.unknownUntil(now))\n", "			r.Use = nil\n"}},
			World: World{Faults: []string{"store flushed", "store rolled back"}, Just: true},
		},
		{
			Name: "lost-window-ends-at-once", Breaks: "use of a fixed window that is not known any more counts until its clock's window ends, whatever clock counted it",
			Edits: []Edit{{"limit/use.go", "		return at - at%v.Window + 2*v.Window\n", "		return at - at%v.Window + v.Window\n"}},
		},
		{
			Name: "cold-window-starts-empty", Breaks: "a cold limit that counts starts with nothing in use when its memory is lost",
			Edits: []Edit{{settle, "return blocked(v.unknownUntil(min(v.Birth, now)))", "return nil"}},
			World: World{Faults: []string{"store flushed", "store rolled back"}, Just: true},
		},
		{
			Name: "log-forgets-early", Breaks: "a log or a slot counts for half of its window",
			Edits: []Edit{{use, "Entry{Until: now + v.Window,", "Entry{Until: now + v.Window/2,"}},
		},
	}
}
