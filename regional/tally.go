package regional

import "aliquot/limit"

// tallyRows is how many kinds of decisions are counted apart before the metrics have to
// take them: a batch has a few rules, most of them decided in one or two ways.
const tallyRows = 8

// tally counts the decisions of one call, which the metrics take together: each of their
// counters is one place in memory that the processors of all calls take from one another. The
// zero value has counted nothing; so has a nil one, whatever it is told. It belongs to one
// call.
type tally struct {
	rows [tallyRows]tallyRow
	n    int
	// counts are those of the version of the rules that the requests were decided under.
	counts          *decisionCounts
	allowed, denied uint64
}

// tallyRow is what was decided of one rule ("" for none) in one way; offered and admitted
// are whole tokens, as metrics are.
type tallyRow struct {
	rule, outcome, mode string
	decisions           uint64
	offered, admitted   float64
}

// decided counts a decision, and returns its row, which holds until the next one.
func (t *tally) decided(m *metrics, rule, outcome, mode string) *tallyRow {
	if t == nil {
		return nil
	}
	for i := range t.n {
		if r := &t.rows[i]; r.rule == rule && r.outcome == outcome && r.mode == mode {
			r.decisions++
			return r
		}
	}
	if t.n == tallyRows {
		t.flushRows(m)
	}
	r := &t.rows[t.n]
	t.n++
	*r = tallyRow{rule: rule, outcome: outcome, mode: mode, decisions: 1}
	return r
}

// charged counts what the decision was about, and whether that was consumed. A nil row
// counts nothing.
func (r *tallyRow) charged(cost limit.Tokens, consumed bool) {
	if r == nil {
		return
	}
	tokens := float64(cost) / float64(limit.Token)
	r.offered += tokens
	if consumed {
		r.admitted += tokens
	}
}

// under counts a request that was decided under a version of the rules.
func (t *tally) under(counts *decisionCounts, allowed bool) {
	if t.counts != counts {
		t.flushCounts()
		t.counts = counts
	}
	if allowed {
		t.allowed++
	} else {
		t.denied++
	}
}

// flush has the metrics take what was counted, and begins anew.
func (t *tally) flush(m *metrics) {
	t.flushRows(m)
	t.flushCounts()
}

func (t *tally) flushRows(m *metrics) {
	for i := range t.n {
		m.decided(&t.rows[i])
		t.rows[i] = tallyRow{}
	}
	t.n = 0
}

func (t *tally) flushCounts() {
	t.counts.add(t.allowed, t.denied)
	t.allowed, t.denied = 0, 0
}
