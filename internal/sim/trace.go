package sim

import (
	"fmt"
	"time"
)

// traceKept is how many of the last events a failure shows.
const traceKept = 60

// entry is one line of the trace. what says what the other fields mean.
type entry struct {
	at         int64
	what       string
	who        int
	a, b, c, d int64
}

// note records an event.
func (w *world) note(what string, who int, a, b, c, d int64) {
	e := entry{at: w.now, what: what, who: who, a: a, b: b, c: c, d: d}
	w.trace[w.noted%traceKept] = e
	w.noted++
	w.mix(e)
}

// quiet counts an event in the hash only, because there are many of its kind.
func (w *world) quiet(what string, who int, a, b, c, d int64) {
	e := entry{at: w.now, what: what, who: who, a: a, b: b, c: c, d: d}
	w.mix(e)
}

// mix folds an entry into the hash of the whole run, FNV-1a.
func (w *world) mix(e entry) {
	const prime = 1099511628211
	for _, x := range [...]int64{e.at, int64(len(e.what)), int64(e.who), e.a, e.b, e.c, e.d} {
		w.hash = (w.hash ^ uint64(x)) * prime
	}
}

// lines returns the end of the trace, oldest first.
func (w *world) lines() []string {
	var out []string
	for i := max(0, w.noted-traceKept); i < w.noted; i++ {
		e := w.trace[i%traceKept]
		out = append(out, fmt.Sprintf("%12.6f  %-20s %d: %d %d %d %d",
			time.Duration(e.at).Seconds(), e.what, e.who, e.a, e.b, e.c, e.d))
	}
	return append(out, w.holdings()...)
}

// holdings describes what every participant holds at the end.
func (w *world) holdings() []string {
	out := []string{fmt.Sprintf("lease %v, rho %d ppm, faults every %v", w.cfg.Lease, w.cfg.RhoPPM, duration(w.faultGap))}
	for _, c := range w.rules {
		out = append(out, fmt.Sprintf("key %d: limits %v, gone %d, ledger %v", c.key.Rule, c.terms, c.gone, w.ledger.Shares(c.key)))
		for _, l := range w.coords {
			if status, ok := l.machine.Key(c.key); ok {
				out = append(out, fmt.Sprintf("  coordinator %d: %+v", l.name, status.Regions))
			}
		}
		for i, s := range w.stores {
			record := s.get(c)
			use := record.Use // printed separately, because its address is another one every time
			record.Use = nil
			out = append(out, fmt.Sprintf("  store %d: %+v, in use %+v, enforces %+v", i, record, use, w.enforced(i, c)))
		}
		for _, n := range w.nodes {
			out = append(out, fmt.Sprintf("  daemon %d of %d, rules %d: %+v", n.name, n.region, n.version, n.machine.Right(c.key, c.keyLimit(c.at(n.version, n.wall())), n.now())))
		}
	}
	return out
}

func duration(ns int64) time.Duration { return time.Duration(ns) }
