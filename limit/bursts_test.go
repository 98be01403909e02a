package limit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The most that a client gets by asking all the time from some instant on, of a limit of
// 1000 in a window of 100 s: within a hundredth of the window, within a window and within
// two, in parts of the limit. This is the table of docs/reference/algorithms.md: go test ./limit
// -run TestBursts -v.
func TestBursts(t *testing.T) {
	want := map[Algorithm][3]float64{
		TokenBucket:    {1.01, 2, 3},
		LeakyBucket:    {1.01, 2, 3},
		FixedWindow:    {2, 2, 3},
		SlidingCounter: {1.01, 2, 3},
		SlidingLog:     {1, 1, 2},
	}
	for a := range algorithms {
		if a == Concurrency {
			continue // how much it admits depends on when its slots are released
		}
		want := want[a]
		var worst [3]float64
		for part := range int64(20) {
			burst := burstFrom(a, part*burstWindow/20+burstWindow-burstWindow/400)
			for i := range worst {
				worst[i] = max(worst[i], burst[i])
			}
		}
		t.Logf("%-22v at once %.3f, in a window %.3f, in two %.3f", a, worst[0], worst[1], worst[2])
		for i := range worst {
			if worst[i] > want[i] || worst[i] < want[i]-0.02 {
				t.Errorf("%v: %.3f, want up to %.3f", a, worst[i], want[i])
			}
		}
	}
}

const burstWindow = 100 * tick

// burstFrom has a client ask for one token ten times more often than the limit allows,
// and at first for all there is, from an offset in a window on.
func burstFrom(a Algorithm, offset int64) (most [3]float64) {
	const limit, perWindow = 200, 2000
	c := alone(limitOf(a, limit, 100*time.Second))
	start := 10*burstWindow + offset
	var admitted []int64 // instants, one for each token
	for now := start; now < start+4*burstWindow; now += burstWindow / perWindow {
		for c.ask(1, now).Allowed {
			admitted = append(admitted, now)
		}
	}
	for i, length := range [3]int64{burstWindow / 100, burstWindow, 2 * burstWindow} {
		from := 0
		for to, at := range admitted {
			for admitted[from] <= at-length {
				from++
			}
			most[i] = max(most[i], float64(to-from+1)/limit)
		}
	}
	return most
}

// The sliding counter decides as the log does for all but a hundredth of steady traffic
// that the limit has room for. Of more it denies other requests than the log does, for
// each goes by what it has admitted, but as many: what is admitted differs by a hundredth
// at most.
func TestCounterIsLikeTheLog(t *testing.T) {
	for _, x := range []struct {
		limit  int64
		load   float64
		differ float64 // parts of the decisions, at most; 1 where it is not compared
	}{
		{100, 0.5, 0.01}, {100, 0.8, 0.01}, {1000, 0.9, 0.01}, {100, 1.5, 1}, {100, 3, 1}, {1000, 1.1, 1},
	} {
		rng := rand.New(rand.NewPCG(5, uint64(x.limit)))
		counter, log := alone(limitOf(SlidingCounter, x.limit, 100*time.Second)), alone(limitOf(SlidingLog, x.limit, 100*time.Second))
		gap := float64(burstWindow) / float64(x.limit) / x.load
		now, requests := 10*burstWindow, int(poissonRequests*x.load)
		differ, admitted := 0, [2]int{}
		for range requests {
			now += int64(rng.ExpFloat64() * gap)
			a, b := counter.ask(1, now).Allowed, log.ask(1, now).Allowed
			if a {
				admitted[0]++
			}
			if b {
				admitted[1]++
			}
			if a != b {
				differ++
			}
		}
		part := float64(differ) / float64(requests)
		t.Logf("limit %4d, load %.1f: %6.3f %% of %d decisions differ; admitted %d, the log %d", x.limit, x.load, 100*part, requests, admitted[0], admitted[1])
		if part > x.differ {
			t.Errorf("limit %d, load %.1f: %.3f of the decisions differ", x.limit, x.load, part)
		}
		if more := float64(admitted[0])/float64(admitted[1]) - 1; more > 0.01 || more < -0.01 {
			t.Errorf("limit %d, load %.1f: admitted %d, the log %d", x.limit, x.load, admitted[0], admitted[1])
		}
	}
}

// poissonRequests are how many requests a stream has that uses all of the limit.
const poissonRequests = 20_000
