package compare

import (
	"fmt"
	"math"
	"time"
)

// regions is in how many regions everything happens, and apart how far they are
// from the coordinators unless a workload says otherwise.
const (
	regions = 3
	apart   = 80 * time.Millisecond
)

// usual is the limit of most workloads.
func usual() Bucket { return Bucket{Capacity: 300, Rate: 100} }

// greedyRate is what a client sends that wants all it can get, as a multiple of the
// rate of its limit.
const greedyRate = 20

func base(name string, length time.Duration) Workload {
	return Workload{
		Name: name, RTTs: []time.Duration{apart, apart, apart}, Keys: []Bucket{usual()},
		Length: length, Measured: 5 * time.Second,
	}
}

// greedy asks for everything in one region.
func greedy(region int, b Bucket) Source {
	return Source{Region: region, Rate: greedyRate * float64(b.Rate)}
}

// Single is a client in one region that asks for all it can get.
func Single() Workload {
	w := base("single region", time.Minute)
	w.Sources = []Source{greedy(0, w.Keys[0])}
	return w
}

// Rotation is one client that turns to the next region with every request.
func Rotation() Workload {
	w := base("rotation", 30*time.Second)
	s := greedy(0, w.Keys[0])
	s.Rotating = true
	w.Sources = []Source{s}
	return w
}

// Everywhere is a client that asks for all it can get in every region.
func Everywhere() Workload {
	w := base("greedy everywhere", time.Minute)
	for i := range w.RTTs {
		w.Sources = append(w.Sources, greedy(i, w.Keys[0]))
	}
	return w
}

// Step is follow-the-sun: all demand moves from one region to another at once.
func Step() Workload {
	w := base("step", 30*time.Second)
	w.Step, w.StepTo = 15*time.Second, 1
	before, after := greedy(0, w.Keys[0]), greedy(1, w.Keys[0])
	before.Until, after.From = w.Step, w.Step
	w.Sources = []Source{before, after}
	return w
}

// Skew is a demand of exactly the limit, of which a part s above an equal split is in
// one region: 0 is all equal, 1 all in one.
func Skew(s float64) Workload {
	w := base(fmt.Sprintf("skew %.2f", s), 305*time.Second)
	n := float64(len(w.RTTs))
	for i := range w.RTTs {
		part := (1 - s) / n
		if i == 0 {
			part += s
		}
		if part > 0 {
			w.Sources = append(w.Sources, Source{Region: i, Rate: part * float64(w.Keys[0].Rate), Random: true})
		}
	}
	return w
}

// Flood is a client that retries 100,000 times a second in one region, from the
// tenth second on, while another region has a demand below its fair share.
func Flood() Workload {
	w := base("retry flood", 40*time.Second)
	w.Measured = 10 * time.Second
	w.Sources = []Source{
		{Region: 0, Rate: 100_000, From: 10 * time.Second},
		{Region: 1, Rate: 30, Random: true},
	}
	return w
}

// Crowd is 2,000 clients whose sizes follow Zipf(1.1). Each is at home in one region and
// sends one request in ten from another. At 500 requests a second of all together the
// largest asks for 84 % of its limit, at 1,000 three ask for more than theirs.
func Crowd(perSecond float64) Workload {
	const clients, exponent = 2000, 1.1
	w := base(fmt.Sprintf("Zipf crowd, %.0f/s", perSecond), 60*time.Second)
	w.Measured, w.Keys = 0, nil
	sum := 0.0
	for k := range clients {
		sum += math.Pow(float64(k+1), -exponent)
	}
	for k := range clients {
		w.Keys = append(w.Keys, usual())
		rate := perSecond * math.Pow(float64(k+1), -exponent) / sum
		home := k % len(w.RTTs)
		for i := range w.RTTs {
			part := .05
			if i == home {
				part = .9
			}
			w.Sources = append(w.Sources, Source{Key: k, Region: i, Rate: rate * part, Random: true})
		}
	}
	return w
}

// Pulse is burst, pause, burst in every region, with a pause in which one bucket
// fills (C/r), or one so long that the key cools down.
func Pulse(pause time.Duration) Workload {
	w := base(fmt.Sprintf("burst, %v, burst", pause), 10*(pause+time.Second/2))
	w.Measured = 0
	for i := range w.RTTs {
		s := greedy(i, w.Keys[0])
		s.On, s.Off = time.Second/2, pause
		w.Sources = append(w.Sources, s)
	}
	return w
}

// Far is another workload at another distance.
func Far(w Workload, rtt time.Duration) Workload {
	w.Name = fmt.Sprintf("%s, %v", w.Name, rtt)
	w.RTTs = []time.Duration{rtt, rtt, rtt}
	return w
}

// Drifting is another workload with clocks that run differently.
func Drifting(w Workload) Workload {
	w.Name += ", drift"
	w.Drifting = true
	return w
}

// Broken is another workload in which a region is cut off, the leader dies and a
// store is flushed.
func Broken(w Workload) Workload {
	w.Name += ", faults"
	w.Length = 90 * time.Second
	w.Faults = []Fault{
		{Kind: Partition, Region: 1, At: 8 * time.Second, Length: 25 * time.Second},
		{Kind: LeaderKill, At: 40 * time.Second, Length: 3 * time.Second},
		{Kind: StoreFlush, Region: 0, At: 50 * time.Second},
		{Kind: Partition, Region: 0, At: 60 * time.Second, Length: 2 * time.Second},
		{Kind: StoreFlush, Region: 2, At: 70 * time.Second},
	}
	return w
}

// Skews are the steps of the sweep.
func Skews() []float64 { return []float64{0, .25, .5, .75, 1} }

// Workloads are all that the table shows.
func Workloads() []Workload {
	all := []Workload{Single(), Rotation(), Everywhere(), Step()}
	for _, s := range Skews() {
		all = append(all, Skew(s))
	}
	all = append(all, Flood(), Crowd(500), Crowd(1000), Pulse(3*time.Second), Pulse(20*time.Second))
	for _, rtt := range []time.Duration{time.Millisecond, 200 * time.Millisecond} {
		all = append(all, Far(Rotation(), rtt), Far(Step(), rtt))
	}
	return append(all, Drifting(Rotation()), Drifting(Everywhere()), Broken(Rotation()), Broken(Everywhere()))
}
