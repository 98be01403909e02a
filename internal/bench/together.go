package bench

import "maps"

// Together judges several runs of the same clients as the one that they were: the
// clients of each have the same attributes, and all report to it what they got,
// wherever and whenever that was. Regions and series are left out, and Steady is of
// what was sent after the first second of each run.
func Together(first *Report, others ...*Report) *Report {
	out := &Report{
		Run: first.Run, Limit: first.Limit, Enforcement: first.Enforcement, Promised: first.Promised, Clients: first.Clients,
		Errors: map[string]int64{}, Examples: map[string]string{}, Modes: map[string]int64{},
		WindowsChecked: true, start: first.start, clients: map[uint32]*slot{},
	}
	all := append([]*Report{first}, others...)
	for _, r := range all {
		if r.start.Before(out.start) {
			out.start = r.start
		}
	}
	for _, r := range all {
		out.include(r)
	}
	out.sortAdmissions()
	out.judgeClients()
	out.judgeWindows()
	return out
}

// include adds what another run saw, on the time line of this one.
func (out *Report) include(r *Report) {
	later := r.start.Sub(out.start)
	for _, s := range r.clients {
		s := *s
		s.firstSent += later
		s.lastReceived += later
		out.addSlot(s)
	}
	for _, a := range r.admissions {
		out.admissions = append(out.admissions, admission{client: a.client, sent: a.sent + later, received: a.received + later})
	}
	out.Clients, out.Duration = max(out.Clients, r.Clients), max(out.Duration, later+r.Duration)
	out.Offered += r.Offered
	out.Admitted += r.Admitted
	out.Denied += r.Denied
	out.Failed += r.Failed
	out.Rests += r.Rests
	out.WindowsChecked = out.WindowsChecked && r.WindowsChecked
	addCounts(out.Errors, r.Errors)
	addCounts(out.Modes, r.Modes)
	maps.Copy(out.Examples, r.Examples)
}
