package coordinator

import (
	"testing"

	"aliquot/budget"
)

// TestTallyCountsADaemonBesideTheSession: what a second daemon of a region admits counts with what
// the first one reports, from the answer to its Hello before on.
func TestTallyCountsADaemonBesideTheSession(t *testing.T) {
	y := newAuditor(0, strictly, 0)
	second1, spent := sessionlessDaemon{region: 0, incarnation: 2}, usage(0, 1, 80).Keys
	y.addReport(usage(0, 1, 100), second(0), always)
	y.addSessionless(second1, 1, 0, nil, second(1), always)
	y.addSessionless(second1, 2, 1, spent, second(2), always)
	if len(y.breaches) != 1 || !near(y.breaches[0].admitted, 180) || !near(y.breaches[0].allowed, 120) || !near(y.breaches[0].byRegion[0], 180) {
		t.Fatalf("%+v; 180 in two seconds are more than 100 + 20", y.breaches)
	}
	if got := y.rules[1].admitted[0]; !near(got, 180) {
		t.Errorf("%v admitted in the region, want 180", got)
	}
	refunded := usage(0, 1, 0).Keys
	refunded[0].Refunded = 180 * microToken
	y.addSessionless(second1, 3, 2, refunded, second(2), always)
	if got := y.keys[refunded[0].Key].excess(); got > 0 {
		t.Errorf("%v above the limit after all was given back", got)
	}
}

// TestTallyBesideIsCertain: nothing counts whose beginning this node does not know.
func TestTallyBesideIsCertain(t *testing.T) {
	of, spent := sessionlessDaemon{region: 0, incarnation: 2}, usage(0, 1, 500).Keys
	for name, fold := range map[string]func(*auditor){
		"before the first answer": func(y *auditor) { y.addSessionless(of, 1, 0, spent, second(1), always) },
		"since an answer of another leader": func(y *auditor) {
			y.addSessionless(of, 8, 7, spent, second(1), always)
		},
		"told before, and the answer was lost": func(y *auditor) {
			y.addSessionless(of, 1, 0, nil, second(1), always)
			y.addSessionless(of, 2, 1, nil, second(2), always)
			y.addSessionless(of, 3, 1, spent, second(3), always)
		},
		"a cold key": func(y *auditor) {
			y.addSessionless(of, 1, 0, nil, second(1), always)
			y.addSessionless(of, 2, 1, spent, second(2), func(budget.KeyID) bool { return false })
		},
	} {
		y := newAuditor(0, strictly, 0)
		if fold(y); len(y.breaches) != 0 || len(y.keys) != 0 {
			t.Errorf("%s: %+v", name, y.breaches)
		}
	}
	y := newAuditor(0, strictly, 0)
	for i := range uint64(2 * maxSessionless) {
		y.addSessionless(sessionlessDaemon{incarnation: i}, 1, 0, nil, 0, always)
	}
	if len(y.sessionless) > maxSessionless {
		t.Errorf("it remembers %d daemons", len(y.sessionless))
	}
}
