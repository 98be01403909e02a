package budget

import "aliquot/internal/hashslot"

// Hello writes a Hello. A nonce is only ever compared with the nonce of the same Hello.
func (c *Canon) Hello(h *Hello) {
	c.Int(int64(h.Region))
	c.Incarnation(h.Region, h.Incarnation)
	c.String(h.RedisEpoch)
	c.nonce(h.Region, h.Nonce)
	c.rules(h.Rules)
	c.Int(int64(len(h.Held)))
	for _, x := range h.Held {
		c.key(x.Key)
		c.Gen(x.Gen)
		c.share(x.Share)
		c.limit(x.Limit)
	}
	c.slots(h.Unreached)
	c.standing(&h.Standing)
}

// standing writes what a daemon reports of itself and of others.
func (c *Canon) standing(s *Standing) {
	c.Int(int64(s.Daemon))
	c.Bools(s.Storeless, s.Alone)
	c.daemons(s.Others)
}

// daemons writes the ids of daemons.
func (c *Canon) daemons(ids []DaemonID) {
	c.Int(int64(len(ids)))
	for _, id := range ids {
		c.Int(int64(id))
	}
}

func (c *Canon) nonce(region int, nonce uint64) {
	c.name(space(NameOrder, nonces, uint64(region), 0), nonce)
}

// HelloOK writes an answer to a Hello.
func (c *Canon) HelloOK(ok *HelloOK) {
	c.Int(int64(ok.Region))
	c.session(ok.Epoch, ok.Session, 0)
	c.nonce(ok.Region, ok.Nonce)
	c.Gen(ok.Watermark)
	c.actions(ok.Region, ok.Actions)
}

// Report writes a Report.
func (c *Canon) Report(r *Report) {
	c.Int(int64(r.Region))
	c.session(r.Epoch, r.Session, r.Seq)
	c.seq(r.Epoch, r.Session, r.Ack)
	c.regionTime(r.Region, r.TSend)
	c.Bools(r.Opening)
	c.rules(r.Rules)
	if c.Demand {
		c.Int(int64(r.Pace))
	}
	c.Int(int64(len(r.Keys)))
	for i := range r.Keys {
		c.keyReport(r.Region, &r.Keys[i])
	}
	c.slots(r.Unreached)
	c.Int(int64(r.Contents))
	c.standing(&r.Standing)
}

func (c *Canon) slots(s *hashslot.Set) {
	if s != nil {
		for _, word := range s {
			c.Int(int64(word))
		}
	}
	c.Int(-1)
}

func (c *Canon) keyReport(region int, r *KeyReport) {
	c.key(r.Key)
	c.Gen(r.Gen)
	c.share(r.Share)
	c.limit(r.Limit)
	c.Bools(r.Cold)
	c.Int(int64(r.InUse))
	c.Int(r.Label)
	c.usage(region, r.Key, r.Admitted, r.Offered)
	c.released(region, r.Key, r.Released)
	c.Int(r.Refunded)
	if c.Demand {
		c.Int(r.Admitted)
		c.Int(r.Offered)
		c.Int(r.Tokens)
		c.Bools(r.Rejecting)
		c.Int(int64(r.Idle))
		c.Int(int64(r.Gap))
	}
}

// Directive writes a Directive.
func (c *Canon) Directive(d *Directive) {
	c.Int(int64(d.Region))
	c.session(d.Epoch, d.Session, d.Seq)
	c.regionTime(d.Region, d.TSend)
	c.Bools(d.Renew)
	c.daemons(d.Others)
	c.actions(d.Region, d.Actions)
}

func (c *Canon) actions(region int, actions []Action) {
	c.Int(int64(len(actions)))
	for i := range actions {
		a := &actions[i]
		c.key(a.Key)
		c.Gen(a.Gen)
		c.share(a.Share)
		c.granted(region, a.Key, a.Granted)
		c.Bools(a.Cold)
		c.Int(a.From)
		c.limit(a.Limit)
	}
}

// Plan writes a plan that is being replicated.
func (c *Canon) Plan(p *Plan) {
	c.Epoch(p.Epoch)
	c.Int(int64(len(p.Changes)))
	for _, e := range p.Changes {
		c.key(e.Key)
		c.Int(int64(len(e.Shares)))
		for _, s := range e.Shares {
			c.share(s)
		}
	}
	c.Int(int64(len(p.InitialRedisEpochs)))
	for _, r := range p.InitialRedisEpochs {
		c.Int(int64(r.Region))
		c.String(r.RedisEpoch)
	}
}

// AppendState writes the ledger.
func (l *Ledger) AppendState(c *Canon) {
	c.Config(&l.Config)
	c.Epoch(l.Epoch)
	c.Int(int64(len(l.entries)))
	for _, k := range sortedKeys(l.entries) {
		c.key(k)
		for _, s := range l.entries[k] {
			c.share(s)
		}
	}
}

func (c *Canon) rules(s RulesState) {
	c.Int(int64(s.Version))
	c.Int(int64(s.Ended))
}
