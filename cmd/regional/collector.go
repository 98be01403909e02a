package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// leastHeap is up to where the heap of a daemon grows before the garbage collector
	// runs. By Go's default it may double: of a daemon 5 to 15 MiB live, and 4,000 checks a
	// second leave 25 MB of garbage, so that it would run three to five times a second, and
	// what is asked meanwhile waits longer: that is seen at p99. Half of what a daemon may
	// take with ten million random keys.
	leastHeap = 128 << 20
	// goPercent is Go's own: how much the heap grows by, in percent of what lives.
	goPercent = 100
	// mostPercent is for a heap in which hardly anything lives yet: more would only let
	// it grow further beyond leastHeap before the next run finds out how much does.
	mostPercent = 3200
	// liveBytes is what the last run of the collector found to live, and the others are
	// what else it looked through, which Go's percentage is of as well.
	liveBytes    = "/gc/heap/live:bytes"
	stackBytes   = "/gc/scan/stack:bytes"
	globalsBytes = "/gc/scan/globals:bytes"
)

// paceCollector has the garbage collector run when the heap has grown to leastHeap, or
// doubled where more than half of that lives. GOGC says otherwise; a GOMEMLIMIT holds as
// ever.
func paceCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	p := &collectorPace{percent: goPercent}
	p.samples[0].Name, p.samples[1].Name, p.samples[2].Name = liveBytes, stackBytes, globalsBytes
	p.adjust()
	afterCollection(p.adjust)
}

// collectorPace adjusts the collector to the heap. One goroutine uses it at a time.
type collectorPace struct {
	percent int
	samples [3]metrics.Sample
}

// adjust follows what lives now. A change stops the process for some microseconds, so
// small ones are not made.
func (p *collectorPace) adjust() {
	metrics.Read(p.samples[:])
	percent := percentFor(p.samples[0].Value.Uint64(), p.samples[1].Value.Uint64()+p.samples[2].Value.Uint64())
	if difference := max(percent-p.percent, p.percent-percent); difference > p.percent/8 || percent == goPercent && difference > 0 {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
}

// percentFor is by how much a heap may grow of which so many bytes live, beside stacks and
// globals of so many: Go lets it grow by a percentage of all three.
func percentFor(live, beside uint64) int {
	if live >= leastHeap/2 {
		return goPercent
	}
	return int(max(goPercent, min(mostPercent, (leastHeap-live)*100/max(live+beside, 1))))
}

// collected is found dead by every run of the collector.
type collected struct{ after func() }

// afterCollection calls a function after every run of the collector, for as long as the
// process lives, on the goroutine of finalizers: it has to be short.
func afterCollection(after func()) {
	again(&collected{after: after})
}

func again(c *collected) {
	runtime.SetFinalizer(c, func(c *collected) {
		c.after()
		again(c)
	})
}
