package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/internal/bench/latency"
	"aliquot/internal/e2e"
)

// riderPatience is how long a rider's app waits for an answer.
const riderPatience = 5 * time.Second

// riderEndpoints are what riders ask for, in turns.
var riderEndpoints = []string{"/fares/estimate", "/drivers/nearby", "/rides/request", "/trips/current", "/trips/history"}

// surgeRiders are apps that send by a timer of their own, whatever became of the request before, so that a
// slow answer does not hide the requests behind it. Their times count from when a request is sent.
type surgeRiders struct {
	doors     []string // the regions' front doors; a rider stays with one
	n         int
	every     time.Duration // between two requests of a rider, a fifth more or less
	impatient float64       // the part of them who do not wait as Retry-After says
	client    *http.Client

	mu    sync.Mutex
	count riderCount
}

// riderCount is what riders got.
type riderCount struct {
	sent, allowed, failed, refused int
	undecided                      int // refused with 503 by a region that knew nothing to decide by
	allowedTook, refusedTook       latency.Histogram
	failures                       map[string]int
}

// ride sends for a time and returns what the riders got when all is answered.
func (r *surgeRiders) ride(ctx context.Context, length time.Duration) *riderCount {
	transport := &http.Transport{MaxIdleConnsPerHost: r.n}
	defer transport.CloseIdleConnections()
	r.client = &http.Client{Transport: transport, Timeout: riderPatience}
	r.count.failures = map[string]int{}
	end := time.Now().Add(length)
	var all, calls sync.WaitGroup
	for i := range r.n {
		all.Go(func() { r.rider(ctx, i, end, &calls) })
	}
	all.Wait()
	calls.Wait()
	return &r.count
}

// rider is one app until a time.
func (r *surgeRiders) rider(ctx context.Context, i int, end time.Time, calls *sync.WaitGroup) {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	heeds := random.Float64() >= r.impatient
	var notBefore atomic.Int64 // Unix nanoseconds
	due := time.Now().Add(time.Duration(random.Float64() * float64(r.every)))
	for n := i; ; n++ {
		if told := time.Unix(0, notBefore.Load()); heeds && due.Before(told) {
			due = told
		}
		if !due.Before(end) || ctx.Err() != nil {
			return
		}
		e2e.Pause(ctx, time.Until(due))
		calls.Go(func() {
			if wait := r.send(ctx, i, n); wait > 0 {
				notBefore.Store(time.Now().Add(wait).UnixNano())
			}
		})
		due = due.Add(time.Duration((.8 + .4*random.Float64()) * float64(r.every)))
	}
}

// send sends request n of rider i and returns for how long its answer says to wait.
func (r *surgeRiders) send(ctx context.Context, i, n int) (wait time.Duration) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.doors[i%len(r.doors)]+riderEndpoints[n%len(riderEndpoints)], nil)
	if err != nil {
		panic(err) // the addresses are this package's own
	}
	request.Header.Set("X-User-Id", fmt.Sprintf("rider-%d", i))
	sent := time.Now()
	status, failure, undecided := 0, "", false
	resp, err := r.client.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		status = resp.StatusCode
		undecided = resp.Header.Get("X-RateLimit-Problem") == "temporary-reduced-capacity"
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		wait = time.Duration(seconds) * time.Second
	}
	took := time.Since(sent)
	switch {
	case ctx.Err() != nil:
		return 0 // the run is interrupted
	case err != nil && took >= riderPatience:
		failure = "no answer in time"
	case err != nil:
		failure = err.Error()
	case undecided, status == http.StatusOK, status == http.StatusTooManyRequests:
	default:
		failure = resp.Status
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.count
	c.sent++
	switch {
	case failure != "":
		c.failed++
		c.failures[failure]++
		fallthrough
	case status == http.StatusOK:
		c.allowed++
		c.allowedTook.Add(took)
	case undecided:
		c.undecided++
	default:
		c.refused++
		c.refusedTook.Add(took)
	}
	return wait
}
