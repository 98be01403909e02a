package budget

// committed applies the committed plan to this ledger too, and sends what it allows.
func (l *Leader) committed(now Instant) {
	c := l.committing
	if c == nil {
		return
	}
	l.committing = nil
	if err := l.ledger.Apply(c.plan); err != nil {
		panic("budget: a committed plan does not apply to the leader's ledger: " + err.Error())
	}
	l.cfg = l.ledger.Config
	l.began = max(l.began, c.began)
	l.stats.ShareChanges += uint64(len(c.plan.Changes))
	for _, asked := range c.creates {
		l.created(asked, now)
	}
	for _, e := range c.plan.Changes {
		l.changed(e)
	}
	for _, g := range c.grows {
		l.grow(g)
	}
}

// changed updates a key to its new liabilities, or forgets it.
func (l *Leader) changed(e Entry) {
	key := l.keys[e.Key]
	if key == nil {
		if e.Shares != nil {
			l.ledger.set(Entry{Key: e.Key}) // the key's rule was removed meanwhile
		}
		return
	}
	if e.Shares == nil {
		l.forget(key)
		l.stats.Cooled++
		return
	}
	key.shares = l.ledger.Shares(e.Key)
	l.weigh(key)
	l.touch(key)
}

func (l *Leader) created(asked create, now Instant) {
	rep := asked.report
	l.endCreation(rep.Key)
	if l.ledger.Shares(rep.Key) == nil || l.keys[rep.Key] != nil {
		return
	}
	key := l.addKey(rep.Key, now)
	l.learn(key, rep.Limit, asked.rules)
	key.home, key.homeSince = asked.region, now
	l.stats.Created++
	if rep.Limit.LendsUnused() && rep.Rejecting {
		d := &key.regions[asked.region].demand
		d.last, d.rejecting = now, true // the other regions' parts then move with the first directives
	}
	for i := range l.regions {
		l.queueAction(i, key, key.shares[i])
	}
}
