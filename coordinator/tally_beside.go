package coordinator

import "aliquot/budget"

// beside is a daemon without a session, beside the one of its region that has it.
type sessionlessDaemon struct {
	region      int
	incarnation uint64
}

// besideAnswer is the latest answer to a Hello of such a daemon.
type helloAnswer struct {
	nonce uint64
	at    budget.Instant // not later than it went out
}

// maxBeside is from how many such daemons on the tally forgets them all.
const maxSessionless = 1000

// foldBeside takes in what a daemon without a session tells, with a Hello, that it has admitted
// since the answer to the one before. It has no part in demand: the daemon with the session
// reports that. After a lost answer nothing is counted until the next one.
func (t *auditor) addSessionless(of sessionlessDaemon, nonce, since uint64, keys []budget.KeyReport, now budget.Instant, hot func(budget.KeyID) bool) {
	before := t.sessionless[of]
	if t.sessionless == nil || len(t.sessionless) >= maxSessionless {
		t.sessionless = map[sessionlessDaemon]helloAnswer{}
	}
	t.sessionless[of] = helloAnswer{nonce, now}
	if since == 0 || before.nonce != since {
		return
	}
	for _, k := range keys {
		if k.Limit.Capacity <= 0 || !hot(k.Key) {
			continue
		}
		key := t.keyFor(k, now)
		key.counters = growTo(key.counters, of.region)
		s := consumption{region: of.region, admitted: tokens(k.Admitted), offered: tokens(k.Admitted), refunded: tokens(k.Refunded), from: before.at}
		t.ruleFor(key.id.Rule).add(of.region, s.admitted, s.offered)
		if key.counts != budget.Slots && s.from >= key.validFrom {
			t.check(key, s, now)
		}
	}
}
