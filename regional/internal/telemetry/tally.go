package telemetry

import (
	"sync/atomic"

	"aliquot/limit"
)

// tallyRows is how many kinds of decisions a tally counts before it has to pass them on to the
// metrics. A batch has a few rules, and most of them are decided in one or two ways.
const tallyRows = 8

// Tally counts the decisions of one call and adds them to the metrics together. Each counter of the
// metrics is one place in memory for which the processors of all calls compete. The zero value is
// empty. A nil tally counts nothing. It belongs to one call.
type Tally struct {
	rows [tallyRows]tallyRow
	n    int
	// counts are the counters of the rules version under which the requests were decided.
	counts          *DecisionCounts
	allowed, denied uint64
}

// tallyRow counts the decisions of one rule ("" for none) with one outcome and mode. offered and
// admitted are whole tokens, as in the metrics.
type tallyRow struct {
	rule, outcome, mode string
	decisions           uint64
	offered, admitted   float64
}

// Decided counts a decision and returns its row, which is valid until the next call.
func (t *Tally) Decided(m *Metrics, rule, outcome, mode string) *tallyRow {
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

// Charged counts the cost of the decision as offered, and also as admitted if it was consumed. A
// nil row counts nothing.
func (r *tallyRow) Charged(cost limit.Tokens, consumed bool) {
	if r == nil {
		return
	}
	tokens := float64(cost) / float64(limit.Token)
	r.offered += tokens
	if consumed {
		r.admitted += tokens
	}
}

// Under counts a request that was decided under one version of the rules.
func (t *Tally) Under(counts *DecisionCounts, allowed bool) {
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

// Flush adds the counts to the metrics and resets them.
func (t *Tally) Flush(m *Metrics) {
	t.flushRows(m)
	t.flushCounts()
}

func (t *Tally) flushRows(m *Metrics) {
	for i := range t.n {
		m.decided(&t.rows[i])
		t.rows[i] = tallyRow{}
	}
	t.n = 0
}

func (t *Tally) flushCounts() {
	t.counts.add(t.allowed, t.denied)
	t.allowed, t.denied = 0, 0
}

// DecisionCounts counts the decisions under one version of the rules. A nil DecisionCounts counts
// nothing. Safe for concurrent use.
type DecisionCounts struct{ Allowed, Denied atomic.Uint64 }

func (c *DecisionCounts) add(allowed, denied uint64) {
	if c == nil {
		return
	}
	if allowed > 0 {
		c.Allowed.Add(allowed)
	}
	if denied > 0 {
		c.Denied.Add(denied)
	}
}
