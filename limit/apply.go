package limit

// Change is a new share of one key.
type Change struct {
	// View is what the daemon knew of the key before the change.
	View View
	// Gen is the change's generation, above 0. A record that has seen this generation or a later
	// one stays as it is.
	Gen uint64
	// Share is the local bucket of the new share, or of the floor if Cold.
	Share Bucket
	// Grant is the tokens that the pool gives along with the share.
	Grant Tokens
	// From is the label of the first window in which a share that grows counts at once. In an
	// earlier window, or if From is 0, the share counts from the next window on (fixed windows
	// only).
	From int64
	// Cold returns the key to cold.
	Cold bool
	// Deadline is the last instant of the store's clock, in microseconds, at which the change may
	// be made; 0 sets none. A daemon that has given up on a change reports that to the leader, so
	// the change must not take effect later.
	Deadline int64
}

// Applied is the result of a Change.
type Applied struct {
	// Released is the tokens that a shrinking share gave up. They belong to the pool now.
	Released Tokens
	// Tokens is what is left, including a record's Extra; negative if the record owes tokens.
	Tokens Tokens
	// Amnesia is as in Outcome.
	Amnesia bool
	// Late: the deadline had passed, and nothing was done.
	Late bool
	// Stale: the record had seen this generation or a later one, and stays as it is. Tokens is what
	// it held when last settled. A caller that repeats the generation it knows asks a question:
	// nothing changes, and InUse, Due and Label describe the present. For a counting limit any
	// caller may ask.
	Stale bool
	// InUse is what counts against the share. For a bucket it is what is lent, where that is more
	// than the share may hold. A share below InUse must not be acknowledged, because the difference
	// may not go to others. Due is in how many microseconds that ends at the latest; 0 if it has
	// ended.
	InUse Tokens
	Due   int64
	// Label is the present window's label (fixed windows only).
	Label int64
	// At is the store's clock at that time, in microseconds. Nodes of a cluster have one each.
	At int64
}

// Apply makes a change to one record. Time before the change is refilled as the old view says. A
// share that grows arrives empty except for the grant. One that shrinks gives up its part of the
// tokens: what stays and what is released add up exactly. Lent tokens count as held. If many are
// lent, they are what stays.
//
// What an elastic cold bucket holds becomes Extra first, which never moves. A key that returns to
// cold keeps the generation until the record expires, as a fence against delayed commands.
func Apply(r Record, c Change, now int64) (Record, Applied) {
	if c.Deadline != 0 && now > c.Deadline {
		return r, Applied{Late: true, At: now}
	}
	counts := c.View.Algorithm.Counts()
	again := r.Gen == c.Gen && (counts && (r.Hot || c.Cold) || !counts && c.asks())
	if r.Stamp == c.View.Stamp && r.Gen >= c.Gen && !again {
		return r, Applied{Tokens: r.held(), Stale: true, At: now}
	}
	if counts {
		return applyCounted(r, c, now)
	}
	r, old, amnesia := Settle(r, c.View, now)
	a := Applied{Amnesia: amnesia, At: now}
	if !amnesia {
		r.bringBack(&c.View, old)
	}
	if r.Gen != c.Gen || amnesia {
		a.Released = r.reshare(&c, old.Cap)
	}
	if out := r.out(&c.View); out > c.Share.Cap {
		a.InUse, a.Due = out, r.LentUntil-now+1
	}
	if c.Cold {
		r.coolDown(&c.View)
	}
	a.Tokens = r.held()
	return r, a
}

// asks reports whether a change is a question about a share that the bucket already has.
func (c *Change) asks() bool {
	return c.View.Hot && c.View.Gen == c.Gen && c.Grant == 0 && !c.Cold
}

// reshare gives a settled record of a bucket its new share, and returns the tokens that it gave up.
func (r *Record) reshare(c *Change, old Tokens) (released Tokens) {
	if !r.Hot {
		r.setApart(max(0, c.View.Extra-r.Lent))
	}
	r.Hot, r.Gen, r.Share = true, c.Gen, c.Share
	out, had, keep := r.out(&c.View), r.Tokens, r.Tokens
	if had > 0 { // a debt stays
		keep = min(had, max(0, shrunk(had+out, old, c.Share.Cap)-out))
	}
	r.Tokens, r.Carry = clamp(keep+c.Grant, r.Carry, max(0, c.Share.Cap-out))
	return had - keep
}

// applyCounted makes a change to the record of a counting limit. The rights follow from the share,
// and nothing is released or granted.
func applyCounted(r Record, c Change, now int64) (Record, Applied) {
	r, _, amnesia := Settle(r, c.View, now)
	had := c.View.Floor.Cap
	if r.Hot {
		had = r.Share.Cap
	}
	use := r.Use.hold(&c.View, had, c.Share.Cap, c.From, now)
	r.Hot, r.Gen, r.Share, r.Use = true, c.Gen, c.Share, use
	if c.Cold {
		r.coolDown(&c.View)
	}
	a := Applied{
		InUse: use.inUse(&c.View, now), Due: use.wait(&c.View, c.Share.Cap, now), Amnesia: amnesia, At: now,
	}
	a.Tokens = max(0, use.rights(c.Share.Cap, now)-a.InUse)
	if c.View.Algorithm == FixedWindow {
		a.Label = label(now, c.View.Window)
	}
	return r, a
}

// shrunk returns the part of the tokens that stays when a capacity shrinks. Lua counts in doubles,
// so this does too, in the same order. The conversions keep a compiler from fusing steps.
func shrunk(tokens, from, to Tokens) Tokens {
	if to >= from {
		return tokens
	}
	ratio := float64(float64(to) / float64(from))
	keep := Tokens(float64(float64(tokens) * ratio)) // not negative: truncation is floor
	return min(tokens, to, keep)
}

// Keep returns for how many milliseconds a store must keep a cold record under a view: for a bucket
// as TTL says, otherwise for as long as anything counts.
func (r Record) Keep(v *View) int64 {
	if !v.Algorithm.Counts() {
		full := TTL(r.Tokens, v.Cold())
		if r.Lent > 0 {
			full += keepFor(r.LentUntil - r.At) // it may not fill up before
		}
		return full
	}
	lasts := tail(v.Algorithm, v.Window)
	if r.Use != nil {
		lasts = max(lasts, r.Use.Free-r.At)
		if n := len(r.Use.Entries); n > 0 {
			lasts = max(lasts, r.Use.Entries[n-1].Until-r.At)
		}
	}
	return keepFor(lasts)
}

// keepFor returns for how many milliseconds a store keeps what matters for lasts microseconds of
// its clock: 2 % and a second longer.
func keepFor(lasts int64) int64 { return lasts/1000 + lasts/50_000 + 1001 }

// TTL returns for how many milliseconds a store must keep a cold record of a bucket: until it is
// full, with 2 % and a second to spare, because an absent bucket counts as full. A bucket that
// never fills is kept for 100 years. cold is the view's Cold.
func TTL(tokens Tokens, cold Bucket) int64 {
	const longest = maxSecs * 1000
	perSecond := float64(float64(cold.Rate.Micro) + float64(float64(cold.Rate.Frac)/million))
	missing := float64(cold.Cap - tokens)
	if missing <= 0 {
		return 1000
	}
	ms := float64(float64(missing/perSecond) * 1020)
	if !(ms < longest) { // also a rate of 0
		return longest
	}
	whole := int64(ms)
	if float64(whole) < ms {
		whole++
	}
	return whole + 1000
}
