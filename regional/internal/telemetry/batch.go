package telemetry

import (
	"sync/atomic"

	"aliquot/limit"
)

// batchRows is how many kinds of decisions a batch counts before it has to add them to the metrics.
// A call has a few rules, and most of them are decided in one or two ways.
const batchRows = 8

// Batch counts the decisions of one call and adds them to the metrics together: all processors compete
// for the memory of each counter of the metrics. The zero value is empty. A nil batch counts no
// decisions. It belongs to one call.
type Batch struct {
	rows [batchRows]batchRow
	n    int
	// counts are the counters of the rules version under which the requests were decided.
	counts          *DecisionCounts
	allowed, denied uint64
}

// batchRow counts the decisions of one rule ("" for none) with one outcome and mode. offered and
// admitted are whole tokens, as in the metrics.
type batchRow struct {
	rule, outcome, mode string
	decisions           uint64
	offered, admitted   float64
}

// CountDecision counts a decision and returns its row, which is valid until the next call.
func (t *Batch) CountDecision(m *Metrics, rule, outcome, mode string) *batchRow {
	if t == nil {
		return nil
	}
	for i := range t.n {
		if r := &t.rows[i]; r.rule == rule && r.outcome == outcome && r.mode == mode {
			r.decisions++
			return r
		}
	}
	if t.n == batchRows {
		t.flushRows(m)
	}
	r := &t.rows[t.n]
	t.n++
	*r = batchRow{rule: rule, outcome: outcome, mode: mode, decisions: 1}
	return r
}

// AddCost counts the cost of the decision as offered, and also as admitted if it was consumed. A nil
// row counts nothing.
func (r *batchRow) AddCost(cost limit.Tokens, consumed bool) {
	if r == nil {
		return
	}
	tokens := float64(cost) / float64(limit.Token)
	r.offered += tokens
	if consumed {
		r.admitted += tokens
	}
}

// CountRequest counts a request in the counters of the rules version that decided it.
func (t *Batch) CountRequest(counts *DecisionCounts, allowed bool) {
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
func (t *Batch) Flush(m *Metrics) {
	t.flushRows(m)
	t.flushCounts()
}

func (t *Batch) flushRows(m *Metrics) {
	for i := range t.n {
		m.addRow(&t.rows[i])
		t.rows[i] = batchRow{}
	}
	t.n = 0
}

func (t *Batch) flushCounts() {
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
