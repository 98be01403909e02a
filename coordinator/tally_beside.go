package coordinator

import "aliquot/budget"

// beside is a daemon without a session, beside the one of its region that has it.
type beside struct {
	region      int
	incarnation uint64
}

// besideAnswer is the latest answer to a Hello of such a daemon.
type besideAnswer struct {
	nonce uint64
	at    budget.Instant // not later than it went out
}

// maxBeside is from how many such daemons on the tally forgets them all.
const maxBeside = 1000

// foldBeside takes in what a daemon without a session tells, with a Hello, that it has admitted
// since the answer to the one before. It has no part in demand: the daemon with the session
// reports that. After a lost answer nothing is counted until the next one.
func (t *tally) foldBeside(of beside, nonce, since uint64, keys []budget.KeyReport, now budget.Instant, hot func(budget.KeyID) bool) {
	before := t.beside[of]
	if t.beside == nil || len(t.beside) >= maxBeside {
		t.beside = map[beside]besideAnswer{}
	}
	t.beside[of] = besideAnswer{nonce, now}
	if since == 0 || before.nonce != since {
		return
	}
	for _, k := range keys {
		if k.Limit.Capacity <= 0 || !hot(k.Key) {
			continue
		}
		key := t.key(k, now)
		key.seen = reach(key.seen, of.region)
		s := spent{region: of.region, admitted: tokens(k.Admitted), offered: tokens(k.Admitted), refunded: tokens(k.Refunded), from: before.at}
		t.rule(key.id.Rule).add(of.region, s.admitted, s.offered)
		if key.counts != budget.Slots && s.from >= key.changed {
			t.judge(key, s, now)
		}
	}
}
