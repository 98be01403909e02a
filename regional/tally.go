package regional

import "aliquot/limit"

// tallyRows is how many kinds of decisions a tally counts before it has to pass them on to the
// metrics. A batch has a few rules, and most of them are decided in one or two ways.
const tallyRows = 8

// tally counts the decisions of one call and adds them to the metrics together. Each counter of the
// metrics is one place in memory for which the processors of all calls compete. The zero value is
// empty. A nil tally counts nothing. It belongs to one call.
type tally struct {
	rows [tallyRows]tallyRow
	n    int
	// counts are the counters of the rules version under which the requests were decided.
	counts          *decisionCounts
	allowed, denied uint64
}

// tallyRow counts the decisions of one rule ("" for none) with one outcome and mode. offered and
// admitted are whole tokens, as in the metrics.
type tallyRow struct {
	rule, outcome, mode string
	decisions           uint64
	offered, admitted   float64
}

// decided counts a decision and returns its row, which is valid until the next call.
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

// charged counts the cost of the decision as offered, and also as admitted if it was consumed. A
// nil row counts nothing.
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

// under counts a request that was decided under one version of the rules.
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

// flush adds the counts to the metrics and resets them.
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
