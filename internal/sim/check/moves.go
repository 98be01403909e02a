package check

// Events appends everything that can happen next.
func (w *world) Events(out []event) []event {
	up, down := w.ready()
	commit := w.leads != nil && w.leads.pending != nil && !w.leads.held
	if w.sc.AnyOrder {
		for _, i := range up {
			out = append(out, event{oneUp, i, 0})
		}
		for _, i := range down {
			out = append(out, event{oneDown, i, 0})
		}
		if commit {
			out = append(out, event{commits, 0, 0})
		}
		if w.leads != nil && w.leads.due && w.leads.pending == nil {
			out = append(out, event{plans, 0, 0})
		}
	} else if len(up) > 0 {
		out = append(out, event{allUp, 0, 0})
	} else if len(down) > 0 || commit {
		out = append(out, event{allDown, 0, 0})
	}
	quiet := len(up)+len(down) == 0 && !commit
	if quiet {
		out = w.wants(out)
		out = w.ends(out)
	}
	if w.faults == 0 {
		return out
	}
	out = w.messageFaults(out, up, down, commit)
	out = w.leaderFaults(out)
	if quiet && w.leads != nil {
		out = w.operators(out)
	}
	if quiet || w.sc.AnyOrder || len(up) == 0 {
		out = w.regionFaults(out)
	}
	return out
}

// ready returns the messages that are not delayed.
func (w *world) ready() (up, down []uint8) {
	for i := range w.up {
		if !w.up[i].held {
			up = append(up, uint8(i))
		}
	}
	for i := range w.down {
		if !w.down[i].held {
			down = append(down, uint8(i))
		}
	}
	return up, down
}

// wants appends the passing of time, with the present division or another one.
func (w *world) wants(out []event) []event {
	for want := range w.sc.all() + 1 {
		if want == w.want || w.turns > 0 {
			out = append(out, event{passes, uint8(want), 0})
		}
	}
	return out
}

// ends appends the ends of faults that last.
func (w *world) ends(out []event) []event {
	if w.leads == nil {
		out = append(out, event{elects, 0, 0})
	}
	if _, ready := w.progress(); ready {
		out = append(out, event{advances, 0, 0})
	}
	for i := range w.sc.Regions {
		s := w.sites[i]
		if s.cutUp || s.cutDown {
			out = append(out, event{heals, uint8(i), 0})
		}
		for j, n := range s.nodes {
			if n.chunkCalled || !w.at(i) {
				continue
			}
			if n.chunk.Left() > 0 {
				out = append(out, event{returns, uint8(i), uint8(j)})
			}
			if n.spendable(w.now) > 0 {
				out = append(out, event{renews, uint8(i), uint8(j)})
			}
		}
		for j := range s.stuck {
			if !s.stuck[j].made() {
				out = append(out, event{arrivesA, uint8(i), uint8(j)})
			}
		}
	}
	return out
}

func (w *world) may(k kind) bool { return w.sc.Faults&(1<<k) != 0 }

func (w *world) messageFaults(out []event, up, down []uint8, commit bool) []event {
	for _, i := range up {
		if w.at(w.up[i].from.region) {
			out = w.offer(out, i, losesUp, holdsUp, repeatsUp)
		}
	}
	for _, i := range down {
		if w.at(w.down[i].to.region) {
			out = w.offer(out, i, losesDown, holdsDown, repeatsDown)
		}
	}
	if commit {
		out = w.offer(out, 0, holdsCommit)
	}
	return out
}

func (w *world) offer(out []event, a uint8, kinds ...kind) []event {
	for _, k := range kinds {
		if w.may(k) {
			out = append(out, event{k, a, 0})
		}
	}
	return out
}

func (w *world) at(region int) bool { return w.sc.At&(1<<region) != 0 }

func (w *world) leaderFaults(out []event) []event {
	if w.leads == nil {
		return out
	}
	outcomes := uint8(1)
	if w.leads.pending != nil {
		outcomes = 2
	}
	for a := range outcomes {
		out = w.offer(out, a, leaderDies, leaderGone)
		if w.old == nil {
			out = w.offer(out, a, leaderLinger)
		}
	}
	return out
}

func (w *world) regionFaults(out []event) []event {
	for i := range w.sc.Regions {
		if !w.at(i) {
			continue
		}
		s, a := w.sites[i], uint8(i)
		for j, n := range s.nodes {
			b := uint8(j)
			for _, k := range [...]kind{restarts, forgets, takeSticks} {
				if w.may(k) && (k != takeSticks || n.configured() && len(s.stuck) == 0) {
					out = append(out, event{k, a, b})
				}
			}
			for _, k := range [...]kind{lendSticks, lendMute} {
				if w.may(k) && n.chunkFault == storeFine && len(s.stuck) == 0 {
					out = append(out, event{k, a, b})
				}
			}
		}
		n := s.nodes[0]
		if len(s.nodes) == 1 {
			for b := range uint8(2) {
				if w.may(doubles) {
					out = append(out, event{doubles, a, b})
				}
			}
		}
		out = w.offer(out, a, flushes)
		if s.store.Changed(w.now) {
			out = w.offer(out, a, rollsBack)
		}
		if w.may(cuts) && !s.cutUp && !s.cutDown {
			out = append(out, event{cuts, a, 1}, event{cuts, a, 2}, event{cuts, a, 3})
		}
		if n.applyFault == storeFine && len(s.stuck) == 0 {
			out = w.offer(out, a, applySticks, applyMute)
		}
		if w.old != nil && !n.askOld {
			out = w.offer(out, a, asksOld)
		}
	}
	return out
}
