package timeline

import (
	"fmt"
	"time"
)

// kept is how many of the last events Trace returns.
const kept = 60

// offsetBasis is the hash of nothing.
const offsetBasis = 14695981039346656037

// record is the last events, and a hash of all.
type record struct {
	last  [kept]entry
	noted int
	hash  uint64
}

// entry is one line of the trace. what says what the other fields mean.
type entry struct {
	at         int64
	what       string
	who        int
	a, b, c, d int64
}

// Note records an event. what says what the numbers mean.
func (t *Timeline) Note(what string, who int, a, b, c, d int64) {
	e := entry{at: t.now, what: what, who: who, a: a, b: b, c: c, d: d}
	t.record.last[t.record.noted%kept] = e
	t.record.noted++
	t.record.mix(e)
}

// Quiet counts an event in the hash only, because there are many of its kind.
func (t *Timeline) Quiet(what string, who int, a, b, c, d int64) {
	e := entry{at: t.now, what: what, who: who, a: a, b: b, c: c, d: d}
	t.record.mix(e)
}

// mix folds an entry into the hash of the whole run, FNV-1a.
func (r *record) mix(e entry) {
	const prime = 1099511628211
	for _, x := range [...]int64{e.at, int64(len(e.what)), int64(e.who), e.a, e.b, e.c, e.d} {
		r.hash = (r.hash ^ uint64(x)) * prime
	}
}

// Hash returns a hash of everything that was noted.
func (t *Timeline) Hash() uint64 { return t.record.hash }

// Trace describes the last events, oldest first.
func (t *Timeline) Trace() []string {
	var out []string
	for i := max(0, t.record.noted-kept); i < t.record.noted; i++ {
		e := t.record.last[i%kept]
		out = append(out, fmt.Sprintf("%12.6f  %-20s %d: %d %d %d %d",
			time.Duration(e.at).Seconds(), e.what, e.who, e.a, e.b, e.c, e.d))
	}
	return out
}
