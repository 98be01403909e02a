package plants

import "time"

// tokens are bugs in how tokens move and are earned.
func tokens() []Plant {
	const (
		apply   = "limit/apply.go"
		bucket  = "limit/bucket.go"
		settle  = "limit/settle.go"
		grow    = "budget/leader_grow.go"
		session = "budget/leader_session.go"
		applied = "budget/region_apply.go"
	)
	return []Plant{
		{
			Name: "full-on-grow", Breaks: "a share that grows arrives full",
			Edits: []Edit{{apply, "clamp(keep+c.Grant, r.Carry, max(0, c.Share.Cap-out))", "clamp(keep+max(0, c.Share.Cap-old), r.Carry, max(0, c.Share.Cap-out))"}},
		},
		{
			Name: "released-and-kept", Breaks: "a share that shrinks releases tokens and keeps them",
			Edits: []Edit{{apply, "clamp(keep+c.Grant,", "clamp(had+c.Grant,"}},
		},
		{
			Name: "released-whole", Breaks: "a share that shrinks says it released all it had",
			Edits: []Edit{{apply, "return had - keep", "return had + 0*keep"}},
		},
		{
			Name: "granted-from-zero", Breaks: "a region that learns of a share counts all that was ever granted with it",
			Edits: []Edit{
				{applied, "if h := r.hot[act.Key]; h != nil {\n		if h.limit", "c.Grant = act.Granted\n	if h := r.hot[act.Key]; h != nil {\n		if h.limit"},
			},
			World:    World{Regions: 2, Burst: 300, Rate: 15, Keys: 1, Faults: []string{"messages lost"}, Just: true},
			Harmless: "argued: a key that a region does not hold has been granted nothing in its session: the leader forgets what it granted when the region acknowledges that the key is cold, and in every new session",
		},
		{
			Name: "granted-again", Breaks: "every share brings all that was granted in its session once more",
			Edits: []Edit{{applied, "c.Grant = max(0, act.Granted-h.granted)", "c.Grant = act.Granted"}},
		},
		{
			Name: "granted-twice-after-flush", Breaks: "the leader goes on counting what it granted where the last session ended, and the region starts from 0",
			Edits: []Edit{
				{session, "*kr = keyRegion{sent: a, tokens: kr.tokens,", "*kr = keyRegion{sent: a, granted: kr.granted, tokens: kr.tokens,"},
			},
		},
		{
			Name: "replaced-growth-keeps-grant", Breaks: "a growth that waits to be sent and is replaced by a smaller share keeps the tokens that were granted with it",
			Edits:     []Edit{{grow, "kr.next, kr.grant = share, 0", "kr.next = share"}, {grow, "		key.pool += kr.grant\n", "		_ = key.pool\n"}},
			Scenarios: []string{"new-leader"},
		},
		{
			Name: "grant-not-counted", Breaks: "a growth that is overtaken gives its tokens back to the pool, and so does one that was sent",
			Edits: []Edit{{grow, "	key.pool -= grant\n", ""}},
			World: World{Keys: 1, Faults: []string{"messages lost"}, Just: true},
		},
		{
			Name: "pool-unbounded", Breaks: "the pool keeps more released tokens than the unassigned burst could hold",
			Edits: []Edit{{grow, "key.pool = min(key.pool, Scale(key.limit.Capacity, l.poolOf(key, liability).Burst))", "_ = liability"}},
			World: World{Keys: 1, Burst: 300, Rate: 15, Lease: 3 * time.Second, Faults: []string{"cut both ways"}, Just: true},
		},
		{
			Name: "grant-beyond-growth", Breaks: "a growth brings the whole pool, more than the added burst can hold",
			Edits:    []Edit{{grow, "grant := min(key.pool, Scale(key.limit.Capacity, added))", "grant := key.pool"}},
			Harmless: "argued: what the pool holds is nobody's, the liability covers the whole share, and what the bucket cannot hold is void: tokens are lost by it, never gained",
		},
		{
			Name: "released-twice", Breaks: "what a region released in its session counts again with every report",
			Edits: []Edit{{session, "key.pool += rep.Released - kr.released", "key.pool += rep.Released"}},
		},
		{
			Name: "pool-outlives-rules", Breaks: "released tokens of a limit that was lowered are granted under the new one",
			Edits: []Edit{{"budget/leader_use.go", "key.since, key.pool = rules, 0", "key.since = rules"}},
			World: World{Faults: []string{"limit lowered", "messages lost"}, Just: true},
		},
		{
			Name: "overrides-end-unnoticed", Breaks: "released tokens of an override are granted after its end",
			Edits: []Edit{{"budget/leader_use.go", "if rules.Version == l.rules.Version && l.rules.before(rules) {", "if false {"}},
			World: World{Faults: []string{"limit raised", "messages lost"}, Just: true},
		},
		{
			Name: "released-of-old-rules", Breaks: "what a region released of an older limit is told under the new one",
			Edits: []Edit{{"budget/region_step.go", "		h.released = h.reportedReleased\n", ""}},
			World: World{Faults: []string{"limit lowered", "messages lost"}, Just: true},
		},
		{
			Name: "grant-of-old-rules", Breaks: "tokens that were granted under an older limit arrive under the new one",
			Edits: []Edit{{"budget/region_apply.go", "	if r.newRules || r.applying.noGrants {\n", "	if false {\n"}},
			World: World{Faults: []string{"limit lowered", "messages lost"}, Just: true},
		},
		{
			Name: "retroactive-refill", Breaks: "time before the present phase is refilled at the phase's rate",
			Edits: []Edit{{settle, "phase != Limbo && r.At <= v.Since || r.At < v.FloorSince, r.At < v.RuleSince\n", "r.At < v.FloorSince, r.At < v.RuleSince\n"}},
			World: World{Regions: 2, Burst: 300, Rate: 15, Keys: 1, Faults: []string{"cut both ways", "cut one way", "messages lost"}, Just: true},
		},
		{
			Name: "shrink-refills-late", Breaks: "time before a change of share is refilled at the new share's rate",
			Edits: []Edit{{apply, "r, old, amnesia := Settle(r, c.View, now)", "c.View.Share, c.View.Hot, c.View.Gen = c.Share, true, r.Gen\n	r, old, amnesia := Settle(r, c.View, now)"}},
			World: World{Keys: 1, Faults: []string{"messages lost"}, Just: true},
		},
		{
			Name: "limbo-above-floor", Breaks: "tokens above the floor's bucket stay when the lease ends",
			Edits: []Edit{{bucket, "	if tokens >= most {\n		return most, 0", "	if tokens >= most {\n		return tokens, 0"}},
		},
		{
			Name: "shares-rounded-up", Breaks: "the rate of a share is rounded up",
			Edits: []Edit{{"limit/part.go", "return Rate{Micro: int64(micro), Frac: int64(frac)}", "return Rate{Micro: int64(micro) + 1, Frac: int64(frac)}"}},
		},
	}
}
