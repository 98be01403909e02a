package bench

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Report is what a run measured. Durations are nanoseconds in JSON.
type Report struct {
	Run      string        `json:"run"`
	Limit    Limit         `json:"limit"`
	Clients  int           `json:"clients"`
	Duration time.Duration `json:"duration"` // from before the first request to after the last answer
	// Offered counts the checks that were answered, Admitted those allowed.
	Offered  int64 `json:"offered"`
	Admitted int64 `json:"admitted"`
	Denied   int64 `json:"denied"`
	// Failed counts the checks without an answer; Errors says why.
	Failed int64            `json:"failed"`
	Errors map[string]int64 `json:"errors"`
	// Examples has a message for each kind of error.
	Examples map[string]string `json:"examples"`
	// Modes counts the answers by what decided them.
	Modes map[string]int64 `json:"modes"`
	// Bound is C + r x t of the client with the largest gain.
	Bound float64 `json:"bound"`
	// Gain is the largest admitted/bound of any client over its whole run, and
	// Worst the interval with the largest one of any client. A strict limit
	// keeps both at or below 1.
	Gain  float64 `json:"gain"`
	Worst Window  `json:"worst"`
	// WindowsChecked is false when there were too many admissions to remember.
	WindowsChecked bool `json:"windows_checked"`
	// Utilisation is admitted / min(bound, offered), over the whole run; Steady is
	// admitted / min(r x t, offered) of what was sent after the first second (0
	// when the run was too short).
	Utilisation Spread  `json:"utilisation"`
	Steady      Spread  `json:"steady"`
	Latency     Latency `json:"latency"`
	// Regions are in the order of Config.Regions.
	Regions []RegionReport `json:"regions"`
	// Series has one entry per Config.Bucket, by the time of the answers.
	BucketWidth time.Duration `json:"bucket_width"`
	Series      []Bucket      `json:"series"`
}

// Spread is a figure over the clients.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
}

// Latency is of answered calls (a batch is one call), at most 3 % too high.
type Latency struct {
	P50 time.Duration `json:"p50"`
	P90 time.Duration `json:"p90"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// RegionReport is one region's part.
type RegionReport struct {
	Address  string           `json:"address"`
	Offered  int64            `json:"offered"`
	Admitted int64            `json:"admitted"`
	Failed   int64            `json:"failed"`
	Errors   map[string]int64 `json:"errors"`
	Series   []Bucket         `json:"series"`
}

// Bucket is one step of a time series.
type Bucket struct {
	Offered  int64 `json:"offered"`
	Admitted int64 `json:"admitted"`
	Errors   int64 `json:"errors"`
}

func (b *Bucket) add(o Bucket) {
	b.Offered += o.Offered
	b.Admitted += o.Admitted
	b.Errors += o.Errors
}

// Exceeded reports whether a client got more than its limit promises to allow.
func (r *Report) Exceeded() bool { return r.Gain > 1 || r.Worst.Gain > 1 }

// report folds what the workers saw.
func (r *run) report(workers []*worker) *Report {
	out := &Report{
		Run: r.config.Run, Limit: r.config.Limit, Clients: r.config.Clients,
		Errors: map[string]int64{}, Examples: map[string]string{}, Modes: map[string]int64{},
		BucketWidth: r.config.Bucket, WindowsChecked: true, Duration: r.now(),
	}
	latency := new(histogram)
	for i, t := range r.targets {
		out.Regions = append(out.Regions, RegionReport{Address: t.address, Errors: map[string]int64{}})
		for _, w := range workers {
			out.addRegion(i, &w.regions[i])
		}
	}
	for _, w := range workers {
		latency.merge(&w.latency)
		out.WindowsChecked = out.WindowsChecked && !w.dropped
	}
	out.Denied = out.Offered - out.Admitted
	out.Latency = Latency{P50: latency.quantile(.5), P90: latency.quantile(.9), P99: latency.quantile(.99), Max: latency.max}
	out.judgeClients(clients(workers))
	if out.WindowsChecked {
		out.judgeWindows(workers)
	}
	return out
}

func (out *Report) addRegion(i int, c *regionCount) {
	region := &out.Regions[i]
	for at, b := range c.series {
		region.Offered += b.Offered
		region.Admitted += b.Admitted
		region.Failed += b.Errors
		region.Series = addAt(region.Series, at, b)
		out.Offered += b.Offered
		out.Admitted += b.Admitted
		out.Failed += b.Errors
		out.Series = addAt(out.Series, at, b)
	}
	for kind, n := range c.errors {
		region.Errors[kind] += n
		out.Errors[kind] += n
	}
	for mode, n := range c.modes {
		out.Modes[mode] += n
	}
	maps.Copy(out.Examples, c.example)
}

func addAt(series []Bucket, i int, b Bucket) []Bucket {
	for len(series) <= i {
		series = append(series, Bucket{})
	}
	series[i].add(b)
	return series
}

// clients adds up the places of each client; those with no answer are left out.
func clients(workers []*worker) []*slot {
	byClient := map[uint32]*slot{}
	for _, w := range workers {
		for _, l := range w.lanes {
			for _, s := range l.slots {
				if s.answered > 0 {
					addSlot(byClient, s)
				}
			}
		}
	}
	return slices.Collect(maps.Values(byClient))
}

func addSlot(byClient map[uint32]*slot, s *slot) {
	sum, ok := byClient[s.client]
	if !ok {
		one := *s
		byClient[s.client] = &one
		return
	}
	sum.answered += s.answered
	sum.admitted += s.admitted
	sum.lateAnswered += s.lateAnswered
	sum.lateAdmitted += s.lateAdmitted
	sum.firstSent = min(sum.firstSent, s.firstSent)
	sum.lastReceived = max(sum.lastReceived, s.lastReceived)
}

// judgeClients compares every client with its bound over its whole run.
func (out *Report) judgeClients(all []*slot) {
	var whole, steady []float64
	for _, s := range all {
		bound := out.Limit.Bound(s.lastReceived - s.firstSent)
		if gain := float64(s.admitted) / bound; gain >= out.Gain {
			out.Gain, out.Bound = gain, bound
		}
		whole = append(whole, float64(s.admitted)/min(bound, float64(s.answered)))
		earned := out.Limit.Refill * (s.lastReceived - max(s.firstSent, warmUp)).Seconds()
		if s.lateAnswered > 0 && earned > 0 {
			steady = append(steady, float64(s.lateAdmitted)/min(earned, float64(s.lateAnswered)))
		}
	}
	out.Utilisation, out.Steady = spread(whole), spread(steady)
}

func spread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	return Spread{Min: values[0], Median: values[len(values)/2]}
}

// judgeWindows compares every client with its bound over every interval.
func (out *Report) judgeWindows(workers []*worker) {
	var all []admission
	for _, w := range workers {
		all = append(all, w.admissions...)
	}
	slices.SortFunc(all, func(a, b admission) int { return cmp.Compare(a.client, b.client) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].client == all[0].client {
			n++
		}
		if w := worstWindow(out.Limit, all[:n]); w.Gain > out.Worst.Gain {
			out.Worst = w
		}
		all = all[n:]
	}
}
