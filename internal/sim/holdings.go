package sim

import (
	"fmt"
	"time"
)

// lines describes the last events, oldest first, and what every participant holds.
func (w *world) lines() []string { return append(w.Trace(), w.holdings()...) }

// holdings describes what every participant holds at the end.
func (w *world) holdings() []string {
	out := []string{fmt.Sprintf("lease %v, rho %d ppm, faults every %v", w.Config.Lease, w.Config.RhoPPM, duration(w.faultGap))}
	for _, c := range w.Rules {
		out = append(out, fmt.Sprintf("key %d: limits %v, gone %d, ledger %v", c.Key.Rule, c.Terms, c.Gone, w.ledger.Shares(c.Key)))
		for _, l := range w.coords {
			if status, ok := l.machine.Key(c.Key); ok {
				out = append(out, fmt.Sprintf("  coordinator %d: %+v", l.name, status.Regions))
			}
		}
		for i, s := range w.Stores {
			record := s.Get(c)
			use := record.Use // printed separately, because its address is another one every time
			record.Use = nil
			out = append(out, fmt.Sprintf("  store %d: %+v, in use %+v, enforces %+v", i, record, use, w.Enforced(i, c)))
		}
		for _, n := range w.Nodes {
			out = append(out, fmt.Sprintf("  daemon %d of %d, rules %d: %+v", n.Name, n.Region, n.Version, n.Machine.Right(c.Key, c.KeyLimit(c.At(n.Version, n.Wall())), n.Now())))
		}
	}
	return out
}

func duration(ns int64) time.Duration { return time.Duration(ns) }
