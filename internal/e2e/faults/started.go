package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
)

const (
	// beforeCoordinators is how long clients ask the regions before a coordinator starts.
	beforeCoordinators = 3 * time.Second
	// proxiesOfRegion is how many proxies ask one region's GET /check at once, each every proxyAsksEvery.
	proxiesOfRegion = 2
	proxyAsksEvery  = 4 * time.Millisecond
)

// regionsBeforeCoordinators: every regional daemon starts without a state file. Clients call Check and GET /check from
// the start, before a coordinator runs and while all start. Nothing passes before the daemon knows the rules, and no
// client gets more than its limit when they come.
func regionsBeforeCoordinators(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	if err := l.ForgetEverything(); err != nil {
		return nil, err
	}
	total := beforeCoordinators + s.Run
	c := clients.BigLoad(l, total)
	c.Run = fmt.Sprint("early", time.Now().UnixNano())
	checks := clients.Begin(ctx, c)
	proxied := beginProxied(ctx, l, total, c.Run)
	for _, r := range l.Regions {
		if err := r.Start(); err != nil {
			return nil, err
		}
	}
	e2e.Pause(ctx, beforeCoordinators)
	started, startedProxied := checks.At(), proxied.at()
	recovered, err := l.RestartCoordinators(ctx)
	if err != nil {
		return nil, err
	}
	report, err := checks.Wait()
	if err != nil {
		return nil, err
	}
	<-proxied.done
	early := slices.IndexFunc(proxied.admitted, func(a bench.Admission) bool { return a.Received >= startedProxied })
	if early < 0 {
		early = len(proxied.admitted)
	}
	worst := bench.WorstWindow(proxied.admitted, e2e.Big)
	return append(promise.Bounded(report),
		promise.None("Check: admitted before a coordinator ran", clients.AdmittedBetween(report.Series, 0, started), report.Modes),
		promise.AtLeast("Check: answers of no_rules_yet", float64(report.Modes["no_rules_yet"]), 100),
		promise.AtLeast("Check: admitted after that", float64(report.Admitted), 1),
		promise.None("GET /check: admitted before a coordinator ran", int64(early), ""),
		promise.AtLeast("GET /check: answers of 503", float64(proxied.unavailable.Load()), 100),
		promise.AtMost("GET /check: gain over its worst interval", worst.Gain, 1),
		promise.AtLeast("GET /check: admitted after that", float64(len(proxied.admitted)), 1),
		promise.AtMost("seconds from the coordinators' start to leases", recovered.Seconds(), 30),
	), nil
}

// proxied asks GET /check of every region as one client.
type proxied struct {
	began       time.Time
	done        chan struct{}
	unavailable atomic.Int64 // answers of 503

	mu       sync.Mutex
	admitted []bench.Admission // in order of receipt, once done is closed
}

// at returns the time since the proxies began.
func (p *proxied) at() time.Duration { return time.Since(p.began) }

// beginProxied asks for d, as the client of an API key.
func beginProxied(ctx context.Context, l *e2e.Cluster, d time.Duration, apiKey string) *proxied {
	p := &proxied{began: time.Now(), done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, d)
	var workers sync.WaitGroup
	for _, r := range l.Regions {
		for range proxiesOfRegion {
			workers.Go(func() { p.ask(ctx, l.HTTP, r.Address, apiKey) })
		}
	}
	go func() {
		workers.Wait()
		cancel()
		slices.SortFunc(p.admitted, func(a, b bench.Admission) int { return int(a.Received - b.Received) })
		close(p.done)
	}()
	return p
}

func (p *proxied) ask(ctx context.Context, client *http.Client, address, apiKey string) {
	tick := time.NewTicker(proxyAsksEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/check", nil)
		if err != nil {
			panic(err) // an address of the cluster
		}
		request.Header.Set("X-API-Key", apiKey)
		request.Header.Set("X-Original-URI", e2e.CheckedPath)
		sent := p.at()
		answer, err := client.Do(request)
		if err != nil {
			continue // the daemon does not listen yet
		}
		answer.Body.Close()
		switch answer.StatusCode {
		case http.StatusOK:
			one := bench.Admission{Sent: sent, Received: p.at()}
			p.mu.Lock()
			p.admitted = append(p.admitted, one)
			p.mu.Unlock()
		case http.StatusServiceUnavailable:
			p.unavailable.Add(1)
		}
	}
}
