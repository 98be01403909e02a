package regional

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
	"aliquot/rules"
)

// homed are rules with one limit of four requests that has a home. It refills too
// slowly to matter, and half of it is the region's floor.
func homed(wait string) string {
	return "rules: [{id: r0, enforcement: strict, placement: home, borrow_wait: " + wait + ", params: {capacity: 4, refill_rate: 0.001}}]"
}

// move brings all of a key here, with the tokens of the other region.
func (l *leader) move(key *aliquotv1.KeyId) { l.grant(key, budget.Unit, 2*int64(limit.Token)) }

// grant gives the region a share of a key. micro are the tokens that it has got from the other region in all.
func (l *leader) grant(key *aliquotv1.KeyId, share int32, micro int64) {
	l.set(func() {
		l.counter++
		l.actions = append(l.actions, &aliquotv1.Action{
			Key: key, Gen: &aliquotv1.Generation{Epoch: l.epoch, Counter: l.counter},
			Share: &aliquotv1.Share{Rate: share, Burst: share}, GrantedMicro: micro,
		})
	})
}

// used is a daemon whose client has used up its region's floor.
func used(t *testing.T, l *leader) *Daemon {
	t.Helper()
	d, _ := startLive(t, testConfig(l.address()))
	for range 2 {
		if a := check(t, d, "k"); !a.Allowed {
			t.Fatalf("denied within the floor: %+v", a)
		}
	}
	return d
}

// asks decides one request in the background.
func asks(ctx context.Context, d *Daemon) <-chan error {
	answer := make(chan error, 1)
	go func() {
		ds, err := d.limiter.Decide(ctx, []charge.Request{{Attributes: rules.AttributesOf(map[string]string{"api_key": "k"}), Cost: limit.Token}})
		if err == nil && !ds[0].Groups[0].Allowed {
			err = errDenied
		}
		answer <- err
	}()
	return answer
}

// waits asks for a check that waits for its share, whose key is hot by then.
func waits(t *testing.T, l *leader, d *Daemon) (answer <-chan error, key *aliquotv1.KeyId) {
	t.Helper()
	answer = asks(t.Context(), d)
	eventually(t, "the check waits", func() bool { return waiting(d) == 1 })
	key = l.asked()
	l.lend(key, budget.Unit/2)
	return answer, key
}

// waiting is how many checks wait for a share.
func waiting(d *Daemon) int {
	checks, _ := d.auth.Waiting()
	return checks
}

var errDenied = errors.New("denied")

// A check that only the place of the share denies waits until it has moved here, and
// so do others, up to what the limit could serve.
func TestCheckWaitsForTheShare(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, homed("8s"))
		d := used(t, l)
		var answers []<-chan error
		for range 4 {
			answers = append(answers, asks(t.Context(), d))
		}
		eventually(t, "four checks wait", func() bool { return waiting(d) == 4 })
		if a := check(t, d, "k"); a.Allowed {
			t.Error("a fifth one is allowed")
		}
		key := l.asked()
		l.lend(key, budget.Unit/2) // the key is hot now, and the share still elsewhere
		l.move(key)
		passed := 0
		for _, answer := range answers {
			if err := <-answer; err == nil {
				passed++
			} else if !errors.Is(err, errDenied) {
				t.Error(err)
			}
		}
		exactly(t, "of four that waited, those that the two tokens served", passed, 2, d)
		if checks, keys := d.auth.Waiting(); checks != 0 || keys != 0 {
			t.Errorf("left behind: %d checks, %d keys", checks, keys)
		}
		metrics := scrape(t, d)
		for _, line := range []string{`{region="us",result="moved"} 4`, `{region="us",result="full"} 1`} {
			if !strings.Contains(metrics, "aliquot_borrow_waits_total"+line) {
				t.Errorf("no %s", line)
			}
		}
		if a := check(t, d, "k"); a.Allowed {
			t.Error("allowed after everything was spent")
		}
		if waiting(d) != 0 || !strings.Contains(scrape(t, d), `aliquot_borrow_waits_total{region="us",result="moved"} 4`) {
			t.Error("a check waits for a share that is here")
		}
	})
}

// TestCheckOfASlowLimitWaits: a limit that is split has lent nothing yet when a client first comes. Its check waits
// for what the other region does not use, unless the key has been hot for long: then the leader knows of
// the demand. A check of an elastic limit waits for nothing, because its whole burst was here.
func TestCheckOfASlowLimitWaits(t *testing.T) {
	const yaml = "rules: [{id: r0, enforcement: strict, borrow_wait: 8s, params: {capacity: 40, refill_rate: 0.001}}]"
	spent := func(t *testing.T, l *leader, burst int) *Daemon {
		d, _ := startLive(t, testConfig(l.address()))
		for range burst {
			if a := check(t, d, "k"); !a.Allowed {
				t.Fatalf("denied within the burst: %+v", a)
			}
		}
		return d
	}
	t.Run("for its first share", func(t *testing.T) {
		inNetwork(t, func(t *testing.T) {
			l := newLeader(t, yaml)
			d := spent(t, l, 20)
			answer := asks(t.Context(), d)
			eventually(t, "the check waits", func() bool { return waiting(d) == 1 })
			key := l.asked()
			l.lend(key, budget.Unit/2)
			l.grant(key, budget.Unit*9/10, 16*int64(limit.Token))
			if err := <-answer; err != nil {
				t.Errorf("with the share: %v", err)
			}
		})
	})
	denied := func(name, yaml string, burst int, before func(l *leader, d *Daemon)) {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				l := newLeader(t, yaml)
				d := spent(t, l, burst)
				before(l, d)
				asked := time.Now()
				if err := <-asks(t.Context(), d); !errors.Is(err, errDenied) || time.Since(asked) > 100*time.Millisecond {
					t.Errorf("%v after %v", err, time.Since(asked))
				}
			})
		})
	}
	denied("not when the key has been hot for long", yaml, 20, func(l *leader, _ *Daemon) {
		l.lend(l.asked(), budget.Unit/2)
		<-time.After(time.Second) // of the bubble's clock
	})
	denied("not of an elastic limit", strings.Replace(yaml, "strict", "elastic", 1), 40, func(*leader, *Daemon) {})
}

// TestCheckWaitsForEveryPart: the parts of a limit come from several regions, one after the other, and
// a check for which the first part is too little waits for the next one.
func TestCheckWaitsForEveryPart(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, homed("8s"))
		d := used(t, l)
		answer, key := waits(t, l, d)
		l.grant(key, 3*budget.Unit/4, int64(limit.Token)/2)
		eventually(t, "the first part has come", func() bool {
			return rightOf(d, key).Share.Burst == 3*budget.Unit/4
		})
		l.grant(key, budget.Unit, int64(limit.Token))
		if err := <-answer; err != nil {
			t.Errorf("with both parts: %v", err)
		}
	})
}

// TestTheNextCheckWaitsForTheNextPart: a check that comes between two parts of a limit waits too, as
// long as the next part may be on its way.
func TestTheNextCheckWaitsForTheNextPart(t *testing.T) {
	afterTheFirstPart := func(name string, then func(t *testing.T, l *leader, d *Daemon, key *aliquotv1.KeyId)) {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				l := newLeader(t, homed("8s"))
				d := used(t, l)
				answer, key := waits(t, l, d)
				l.grant(key, 3*budget.Unit/4, int64(limit.Token))
				if err := <-answer; err != nil {
					t.Fatalf("with the first part: %v", err)
				}
				then(t, l, d, key)
			})
		})
	}
	afterTheFirstPart("at once", func(t *testing.T, l *leader, d *Daemon, key *aliquotv1.KeyId) {
		answer := asks(t.Context(), d)
		eventually(t, "the next check waits", func() bool { return waiting(d) == 1 })
		l.grant(key, budget.Unit, 2*int64(limit.Token)) // in all
		if err := <-answer; err != nil {
			t.Errorf("with the second part: %v", err)
		}
	})
	afterTheFirstPart("later", func(t *testing.T, _ *leader, d *Daemon, _ *aliquotv1.KeyId) {
		<-time.After(time.Second) // of the bubble's clock
		asked := time.Now()
		if err := <-asks(t.Context(), d); !errors.Is(err, errDenied) || time.Since(asked) > 100*time.Millisecond {
			t.Errorf("a second after the part: %v after %v", err, time.Since(asked))
		}
	})
}

// TestCheckWaitsForTheRestOfAToken: the parts of a limit are rounded down, so what has come may lack
// a little that the bucket earns at once.
func TestCheckWaitsForTheRestOfAToken(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, homed("8s"))
		d := used(t, l)
		answer, key := waits(t, l, d)
		l.grant(key, budget.Unit, int64(limit.Token)-100)
		if err := <-answer; err != nil {
			t.Errorf("a ten-thousandth of a token, which is earned in a tenth of a second: %v", err)
		}
	})
}

// TestTheNextCheckWaitsForTheRestOfAToken: a check waits for what rounding keeps from all regions, also
// if all that other regions lend has come before it. It does not wait for more than that.
func TestTheNextCheckWaitsForTheRestOfAToken(t *testing.T) {
	for _, c := range []struct {
		name  string
		lacks int64 // micro-tokens of the second token
		want  error
	}{{"rounded off", 8, nil}, {"not yet earned", 200, errDenied}} {
		t.Run(c.name, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				// It earns a hundred millionths of a token a second.
				l := newLeader(t, strings.Replace(homed("8s"), "0.001", "0.0001", 1))
				d := used(t, l)
				answer, key := waits(t, l, d)
				l.grant(key, budget.Unit, 2*int64(limit.Token)-c.lacks)
				if err := <-answer; err != nil {
					t.Fatalf("with the first token: %v", err)
				}
				asked := time.Now()
				err := <-asks(t.Context(), d)
				if took := time.Since(asked); !errors.Is(err, c.want) || took > 100*time.Millisecond {
					t.Errorf("%d millionths of a token are missing: %v after %v", c.lacks, err, took)
				}
			})
		})
	}
}

// TestChecksThatWaitHoldNoTurn: checks that wait for a share leave the daemon's turns to others, and
// give each back once.
func TestChecksThatWaitHoldNoTurn(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, homed("8s"))
		d := used(t, l)
		var answers sync.WaitGroup
		for range 4 {
			answers.Go(func() {
				if _, err := d.service.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}}); err != nil {
					t.Error(err)
				}
			})
		}
		eventually(t, "four checks wait", func() bool { return waiting(d) == 4 })
		if taken, _ := d.door.Deciding(); taken != 0 {
			t.Errorf("%d turns are taken by checks that wait", taken)
		}
		l.move(l.asked())
		answers.Wait()
		if taken, _ := d.door.Deciding(); taken != 0 {
			t.Errorf("%d turns are taken when all have their answers", taken)
		}
	})
}

func TestCheckWaitsNoLongerThanItsRuleSays(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, homed("20ms"))
		d := used(t, l)
		if err := <-asks(t.Context(), d); !errors.Is(err, errDenied) {
			t.Errorf("after its wait the check says %v", err)
		}
		if !strings.Contains(scrape(t, d), `aliquot_borrow_waits_total{region="us",result="expired"} 1`) {
			t.Error("the wait is not counted")
		}
	})
}

// TestAShareThatShrinksIsNotWaitedFor: after waits in vain a key's checks are denied at once for a
// while, and a share that only shrinks does not end that.
func TestAShareThatShrinksIsNotWaitedFor(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, homed("20ms"))
		d := used(t, l)
		expired := func() string {
			for line := range strings.Lines(scrape(t, d)) {
				if strings.HasPrefix(line, `aliquot_borrow_waits_total{region="us",result="expired"}`) {
					return line
				}
			}
			return ""
		}
		eventually(t, "waits in vain are over for two seconds", func() bool {
			before := expired()
			if a := check(t, d, "k"); a.Allowed {
				t.Errorf("%+v", a)
			}
			return expired() == before && strings.HasSuffix(before, " 6\n")
		})
		l.lend(l.asked(), budget.Unit/4)
		before := expired()
		if a := check(t, d, "k"); a.Allowed || expired() != before {
			t.Errorf("%+v, and after %s now %s", a, before, expired())
		}
	})
}

func TestCallerLeavesWhileItWaits(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		l := newLeader(t, homed("8s"))
		d := used(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		answer := asks(ctx, d)
		eventually(t, "the check waits", func() bool { return waiting(d) == 1 })
		cancel()
		if err := <-answer; !errors.Is(err, charge.ErrGone) || !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that left hears %v", err)
		}
		if waiting(d) != 0 {
			t.Error("it still counts as waiting")
		}
	})
}

// Who cannot be helped by waiting does not wait: a batch, a split limit, a shadow rule,
// a request that another limit denies too, and anyone without a lease.
func TestWhoDoesNotWait(t *testing.T) {
	const split = "rules: [{id: r0, enforcement: strict, placement: split, params: {capacity: 4, refill_rate: 0.001}}]"
	shadow := strings.Replace(homed("8s"), "id: r0,", "id: r0, shadow: true,", 1)
	both := strings.Replace(homed("8s"), "}]", "}, {id: r1, enforcement: strict, placement: split, params: {capacity: 4, refill_rate: 0.001}}]", 1)
	for name, c := range map[string]struct {
		rules string
		batch int
		cut   bool
	}{
		"a batch":              {rules: homed("8s"), batch: 2},
		"a split limit":        {rules: split, batch: 1},
		"a shadow rule":        {rules: shadow, batch: 1},
		"another limit denies": {rules: both, batch: 1},
		"no lease":             {rules: homed("8s"), batch: 1, cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				l := newLeader(t, c.rules)
				if c.cut {
					l.lease = 500 * time.Millisecond
				}
				d := used(t, l)
				if c.cut {
					l.set(func() { l.down = true })
					phase(t, d, budget.Limbo)
				}
				requests := make([]charge.Request, c.batch)
				for i := range requests {
					requests[i] = charge.Request{Attributes: rules.AttributesOf(map[string]string{"api_key": "k"}), Cost: limit.Token}
				}
				if _, err := d.limiter.Decide(t.Context(), requests); err != nil {
					t.Fatal(err)
				}
				if s := scrape(t, d); strings.Contains(s, "aliquot_borrow_waits_total{") {
					t.Error("it waited")
				}
			})
		})
	}
}

// TestTheWaitForWhatOtherRegionsHold: a denial tells a wait of ten seconds at most while other regions hold more of the
// limit than they keep, also after a wait in vain. Where they lend nothing, or nothing is left there, it tells when this
// region's part admits the request.
func TestTheWaitForWhatOtherRegionsHold(t *testing.T) {
	const window = "rules: [{id: r0, algorithm: %s, placement: %s, params: {limit: 4, window: 3600}}]"
	const bucket = "rules: [{id: r0, enforcement: strict, placement: %s, params: {capacity: 4, refill_rate: 0.001}}]"
	for _, c := range []struct {
		name, rules string
		all         bool // the region gets all of the limit, and uses it up
		soon        bool
	}{
		{"a fixed window", fmt.Sprintf(window, rules.FixedWindow, rules.Auto), false, true},
		{"a counter", fmt.Sprintf(window, rules.SlidingWindowCounter, rules.Auto), false, true},
		{"a log", fmt.Sprintf(window, rules.SlidingWindowLog, rules.Auto), false, true},
		{"slots", fmt.Sprintf(window, rules.Concurrency, rules.Auto), false, true},
		{"a window that is split", fmt.Sprintf(window, rules.FixedWindow, rules.Split), false, false},
		{"a log that is all here", fmt.Sprintf(window, rules.SlidingWindowLog, rules.Auto), true, false},
		{"a bucket", fmt.Sprintf(bucket, rules.Auto), false, true},
		{"a bucket with a home", fmt.Sprintf(bucket, rules.Home), false, true},
		{"a bucket that is split", fmt.Sprintf(bucket, rules.Split), false, false},
		{"a bucket that is all here", fmt.Sprintf(bucket, rules.Home), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inNetwork(t, func(t *testing.T) {
				l := newLeader(t, c.rules)
				d := used(t, l)
				if c.all {
					check(t, d, "k")
					key := l.asked()
					l.lend(key, budget.Unit)
					burst(t, d, "k")
				}
				for i := range 8 {
					a := check(t, d, "k")
					if wait := a.wait(t); a.Allowed || wait <= 0 || (wait <= 10*time.Second) != c.soon {
						t.Errorf("check %d: a wait of %v: %+v", i, wait, a)
					}
					<-time.After(50 * time.Millisecond)
				}
			})
		})
	}
}
