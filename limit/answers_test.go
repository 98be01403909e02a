package limit

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// limitOf is a limit of whole tokens in a window, whatever the algorithm.
func limitOf(a Algorithm, tokens int64, window time.Duration) Limit {
	l := Limit{Algorithm: a, Capacity: Tokens(tokens) * Token, Window: window}
	if !a.Counts() {
		l.Rate = Limit{Algorithm: FixedWindow, Capacity: l.Capacity, Window: window}.PerSecond()
	}
	return l
}

// one is a client of one limit in one region.
type one struct {
	limit  Limit
	view   View
	record Record
	slot   uint64
}

func alone(l Limit) *one {
	return &one{limit: l, view: View{
		Algorithm: l.Algorithm, Window: l.Window.Microseconds(), Floor: Bucket{Cap: l.Capacity, Rate: l.Rate},
		Phase: Live, Until: MaxExact, Stamp: testStamp,
	}}
}

// try answers a request of whole tokens, without making it.
func (c *one) try(tokens, now int64) (Record, Decision) {
	v := c.view
	if v.Algorithm == Concurrency {
		v.Slot = c.slot + 1
	}
	cost := Tokens(tokens) * Token
	records, out := []Record{c.record}, make([]Outcome, 1)
	ok := Take(records, []View{v}, cost, now, out)
	return records[0], Decide(c.limit, out[0], cost, ok)
}

func (c *one) ask(tokens, now int64) Decision {
	r, d := c.try(tokens, now)
	c.record = r
	c.slot++
	return d
}

// exactTo is how much later than need be an answer may be: it is told in milliseconds,
// and a bucket does not say what it earned of its next micro-token.
func exactTo(l Limit) int64 {
	if l.Algorithm.Counts() {
		return 1000
	}
	return 1000 + timeToEarn(1, l.Rate, l).Microseconds()
}

// What an answer says is so: as much as remains is admitted and not one token more, and
// when the limit is said to be as new, it is, and was not before.
func TestAnswersAreTrue(t *testing.T) {
	for a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, uint64(a)))
			denied := 0
			for range 150 {
				window := []time.Duration{time.Second, 90 * time.Second, 24 * time.Hour, 366 * 24 * time.Hour}[rng.IntN(4)]
				c := alone(limitOf(a, 1+rng.Int64N(12), window))
				now := 1 + rng.Int64N(1<<50)
				for range 40 {
					now += rng.Int64N(window.Microseconds()) * rng.Int64N(3) / 8
					d := c.ask(1+rng.Int64N(5), now)
					if !d.Allowed && d.RetryAfter != Never {
						denied++
					}
					checkAnswer(t, c, d, now)
				}
			}
			if denied < 500 {
				t.Errorf("only %d denials", denied)
			}
		})
	}
}

func checkAnswer(t *testing.T, c *one, d Decision, now int64) {
	t.Helper()
	if d.Remaining > 0 {
		if _, all := c.try(d.Remaining, now); !all.Allowed {
			t.Fatalf("%d remain and are not there", d.Remaining)
		}
	}
	if _, more := c.try(d.Remaining+1, now); more.Allowed {
		t.Fatalf("more than the %d that remain", d.Remaining)
	}
	if reset := d.ResetAfter.Microseconds(); reset > 0 {
		whole := d.Limit
		if _, then := c.try(whole, now+reset); !then.Allowed {
			t.Fatalf("not as new after %v: %+v", d.ResetAfter, then)
		}
		if _, early := c.try(whole, now+reset-exactTo(c.limit)); early.Allowed {
			t.Fatalf("as new before %v", d.ResetAfter)
		}
	} else if d.Remaining != d.Limit {
		t.Fatalf("as new, but %d of %d remain", d.Remaining, d.Limit)
	}
}

// A denied request is admitted when it was told to retry, for every cost.
func TestRetryIsExact(t *testing.T) {
	for a := range algorithms {
		rng := rand.New(rand.NewPCG(3, uint64(a)))
		denied := 0
		for range 400 {
			window := []time.Duration{time.Second, time.Minute, 366 * 24 * time.Hour}[rng.IntN(3)]
			capacity := 1 + rng.Int64N(9)
			c := alone(limitOf(a, capacity, window))
			now := 1 + rng.Int64N(1<<50)
			for range 20 {
				now += rng.Int64N(window.Microseconds() / 2)
				cost := 1 + rng.Int64N(capacity+2)
				d := c.ask(cost, now)
				switch retry := d.RetryAfter.Microseconds(); {
				case d.Allowed:
					if d.RetryAfter != 0 {
						t.Fatalf("%v: allowed, retry after %v", a, d.RetryAfter)
					}
				case cost > capacity:
					if d.RetryAfter != Never {
						t.Fatalf("%v: %d of %d: %+v", a, cost, capacity, d)
					}
				default:
					denied++
					_, then := c.try(cost, now+retry)
					_, early := c.try(cost, now+retry-exactTo(c.limit))
					if !then.Allowed || early.Allowed {
						t.Fatalf("%v: retry after %v: then %+v, that %+v", a, d.RetryAfter, then, early)
					}
				}
			}
		}
		if denied < 500 {
			t.Errorf("%v: only %d denials", a, denied)
		}
	}
}

// A limit of one in a window.
func TestLimitOfOne(t *testing.T) {
	for a := range algorithms {
		c, now := alone(limitOf(a, 1, 100*time.Second)), 200*tick
		if d := c.ask(1, now); !d.Allowed || d.Remaining != 0 || d.Limit != 1 {
			t.Errorf("%v: %+v", a, d)
		}
		d := c.ask(1, now)
		if want := map[Algorithm]time.Duration{SlidingCounter: 200 * time.Second}[a]; d.Allowed || d.RetryAfter != max(want, 100*time.Second) {
			t.Errorf("%v: %+v", a, d)
		}
		if d := c.ask(2, now); d.Allowed || d.RetryAfter != Never {
			t.Errorf("%v: more than there can be: %+v", a, d)
		}
	}
}

// A queue by its definition: what was admitted and has not drained yet is never more
// than its capacity, everything that fits is admitted, and each waits for what is before
// it.
func TestQueueByDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		capacity := 1 + rng.Int64N(20)
		l := Limit{Algorithm: LeakyBucket, Capacity: Tokens(capacity) * Token, Rate: Rate{Micro: 1 + rng.Int64N(5*million), Frac: rng.Int64N(million)}}
		c, now, before := alone(l), 1+rng.Int64N(1<<50), int64(0)
		inQueue := new(big.Int) // in millionths of millionths of a micro-token
		most := scaled(l.Capacity, 0)
		for range 100 {
			if before != 0 {
				inQueue.Sub(inQueue, exactly(l.Rate, now-before))
			}
			if before = now; inQueue.Sign() < 0 {
				inQueue.SetInt64(0)
			}
			cost := 1 + rng.Int64N(4)
			full := new(big.Int).Add(inQueue, scaled(Tokens(cost)*Token, 0))
			d := c.ask(cost, now)
			// What was earned and is less than a micro-token does not count yet.
			slack := new(big.Int).Sub(most, full)
			switch {
			case d.Allowed && slack.Sign() < 0:
				t.Fatalf("the queue is longer than it may be by %v", slack)
			case !d.Allowed && slack.Cmp(scaled(1, 0)) > 0:
				t.Fatalf("denied with room for %v more", slack)
			case d.Allowed:
				waits := d.Delay.Microseconds()
				if exactly(l.Rate, waits).Cmp(inQueue) < 0 || waits > 0 && exactly(l.Rate, max(0, waits-exactTo(l))).Cmp(inQueue) > 0 {
					t.Fatalf("a delay of %v for %v in the queue", d.Delay, inQueue)
				}
				inQueue = full
			}
			now += rng.Int64N(3 * million)
		}
	}
}
