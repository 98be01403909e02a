package limit

// Change is a new share of one key.
type Change struct {
	// View is what the daemon knew of the key before the change.
	View View
	// Gen is the change's generation, above 0; a record that has seen it or a
	// later one stays as it is.
	Gen uint64
	// Share is the local bucket of the new share; of the floor when Cold.
	Share Bucket
	// Grant is what the pool gives along with the share.
	Grant Tokens
	// From is the first window, by its label, in which a share that grows counts at
	// once; before, and if it is 0, it counts from the next window on (fixed windows
	// only).
	From int64
	// Cold returns the key to cold.
	Cold bool
	// Deadline is the last instant of the store's clock, microseconds, at which the
	// change may be made; 0 sets none. A daemon that has given up on a change says
	// so to the leader, and it must not take effect after that.
	Deadline int64
}

// Applied is what a change came to.
type Applied struct {
	// Released are the tokens that went with a share that shrank; they belong to
	// the pool now.
	Released Tokens
	// Tokens are left, a record's Extra included; 0 where some are owed.
	Tokens Tokens
	// Amnesia as in Outcome.
	Amnesia bool
	// Late tells that the deadline had passed; nothing was done.
	Late bool
	// Stale tells that the record had seen this generation, or a later one, and
	// stays untouched. Tokens is what it held when last settled. The same generation
	// again, from a caller that knows it (of a limit that counts, from any), is a
	// question: nothing changes, and InUse, Due and Label tell how things are now.
	Stale bool
	// InUse is what counts against the share: for a bucket what it has lent, where that
	// is more than the share may hold. While it is more than the share, the share is not
	// to be acknowledged: the difference may not be given to others. Due is in how many
	// microseconds that ends at the latest; 0 if it has.
	InUse Tokens
	Due   int64
	// Label is the present window's (fixed windows only).
	Label int64
}

// Apply makes a change to one record. Time before it is refilled as the old view
// says; a share that grows arrives empty but for the grant, one that shrinks gives
// up its part of the tokens: what stays and what is released add up exactly. Tokens that
// are lent count as held, and what can stay of them is all that stays, if there are many.
// What an elastic cold bucket holds becomes Extra first, which never moves. A key that
// returns to cold keeps the generation as a fence, until the record expires, against
// commands that got stuck on the way.
func Apply(r Record, c Change, now int64) (Record, Applied) {
	if c.Deadline != 0 && now > c.Deadline {
		return r, Applied{Late: true}
	}
	counts := c.View.Algorithm.Counts()
	again := r.Gen == c.Gen && (counts && (r.Hot || c.Cold) || !counts && c.asks())
	if r.Stamp == c.View.Stamp && r.Gen >= c.Gen && !again {
		return r, Applied{Tokens: max(0, r.held()), Stale: true}
	}
	if counts {
		return applyCounted(r, c, now)
	}
	r, old, amnesia := Settle(r, c.View, now)
	a := Applied{Amnesia: amnesia}
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
	a.Tokens = max(0, r.held())
	return r, a
}

// asks tells a question about a share that a bucket has already from a change.
func (c *Change) asks() bool {
	return c.View.Hot && c.View.Gen == c.Gen && c.Grant == 0 && !c.Cold
}

// reshare gives a settled record of a bucket its new share, and returns what it had to
// give up for that.
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

// applyCounted makes a change to the record of a limit that counts: the rights follow
// from the share, and nothing is released or granted for them.
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
		InUse: use.inUse(&c.View, now), Due: use.wait(&c.View, c.Share.Cap, now), Amnesia: amnesia,
	}
	a.Tokens = max(0, use.rights(c.Share.Cap, now)-a.InUse)
	if c.View.Algorithm == FixedWindow {
		a.Label = label(now, c.View.Window)
	}
	return r, a
}

// shrunk is the part of the tokens that stays when a capacity shrinks. Lua counts
// in doubles, so this does too, in the same order; the conversions keep a compiler
// from fusing steps.
func shrunk(tokens, from, to Tokens) Tokens {
	if to >= from {
		return tokens
	}
	ratio := float64(float64(to) / float64(from))
	keep := Tokens(float64(float64(tokens) * ratio)) // not negative: truncation is floor
	return min(tokens, to, keep)
}

// Keep is for how many milliseconds a store has to keep a cold record under a view: as
// TTL says, or for as long as anything counts.
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

// keepFor is for how many milliseconds a store keeps what matters for so many
// microseconds by its clock: 2 % and a second longer.
func keepFor(lasts int64) int64 { return lasts/1000 + lasts/50_000 + 1001 }

// TTL is for how many milliseconds a store has to keep a cold record of a bucket: until
// it is full, with 2 % and a second to spare, because an absent bucket is a full one. A
// bucket that never fills is kept for 100 years. cold is the view's Cold.
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
