package bench

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"aliquot/internal/bench/latency"
)

// Report is what a run measured. Durations are nanoseconds in JSON.
type Report struct {
	Run   string `json:"run"`
	Limit Limit  `json:"limit"`
	// Enforcement is the limit's, and Promised the bucket that bounds all regions
	// together under it: the limit itself when it is strict.
	Enforcement string `json:"enforcement"`
	Promised    Limit  `json:"promised"`

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
	Bounds
	// Excess is the most admitted above C + r x t in any interval of any client. It
	// is below 0 if no client could use its whole burst at once.
	Excess float64 `json:"excess"`
	// Rests is how often a client rested; see Config.Rest.
	Rests int64 `json:"rests"`
	// WindowsChecked is false when there were too many admissions to remember.
	WindowsChecked bool `json:"windowsChecked"`
	// Utilisation is admitted / min(Bound, offered), over the whole run; Steady is
	// admitted / min(refill x t, offered) of what was sent after the first second,
	// with the refill that is promised (0 when the run was too short).
	Utilisation Spread `json:"utilisation"`
	Steady      Spread `json:"steady"`
	// Latency is of answered calls; a batch is one call.
	Latency latency.Summary `json:"latency"`
	// Regions are in the order of Config.Regions.
	Regions []RegionReport `json:"regions"`
	// Series has one entry per Config.Bucket, by the time of the answers.
	BucketWidth time.Duration `json:"bucketWidth"`
	Series      []Bucket      `json:"series"`

	// Inputs of Together, which judges them again.
	start      time.Time
	clients    map[uint32]*slot
	admissions []admission // by client
}

// Spread is a figure over the clients.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
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
func (r *Report) Exceeded() bool { return r.OfBound > 1 || r.WorstOfBound.Gain > 1 }

// report folds what the workers saw.
func (r *run) report(workers []*worker) *Report {
	out := &Report{
		Run: r.config.Run, Limit: r.promise.limit, Enforcement: r.promise.enforcement, Promised: r.promise.bucket(),
		Clients: r.config.Clients,
		Errors:  map[string]int64{}, Examples: map[string]string{}, Modes: map[string]int64{},
		BucketWidth: r.config.Bucket, WindowsChecked: true, Duration: r.now(), Rests: r.rested.Load(),
		start: r.start, clients: map[uint32]*slot{},
	}
	took := new(latency.Histogram)
	for i, t := range r.targets {
		out.Regions = append(out.Regions, RegionReport{Address: t.address, Errors: map[string]int64{}})
		for _, w := range workers {
			out.addRegion(i, &w.regions[i])
		}
	}
	for _, w := range workers {
		took.Merge(&w.latency)
		out.WindowsChecked = out.WindowsChecked && !w.dropped
	}
	out.Denied = out.Offered - out.Admitted
	out.Latency = took.Summary()
	out.collect(workers)
	out.judgeClients()
	out.judgeWindows()
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
	addCounts(region.Errors, c.errors)
	addCounts(out.Errors, c.errors)
	addCounts(out.Modes, c.modes)
	maps.Copy(out.Examples, c.example)
}

func addAt(series []Bucket, i int, b Bucket) []Bucket {
	for len(series) <= i {
		series = append(series, Bucket{})
	}
	series[i].add(b)
	return series
}

// collect adds up the places of each client; those with no answer are left out.
func (out *Report) collect(workers []*worker) {
	for _, w := range workers {
		for _, l := range w.lanes {
			for _, s := range l.slots {
				if s.answered > 0 {
					out.addSlot(*s)
				}
			}
		}
		out.admissions = append(out.admissions, w.admissions...)
	}
	out.sortAdmissions()
}

func (out *Report) sortAdmissions() {
	slices.SortFunc(out.admissions, func(a, b admission) int { return cmp.Compare(a.client, b.client) })
}

func (out *Report) addSlot(s slot) {
	sum, ok := out.clients[s.client]
	if !ok {
		out.clients[s.client] = &s
		return
	}
	sum.answered += s.answered
	sum.admitted += s.admitted
	sum.lateAnswered += s.lateAnswered
	sum.lateAdmitted += s.lateAdmitted
	sum.firstSent = min(sum.firstSent, s.firstSent)
	sum.lastReceived = max(sum.lastReceived, s.lastReceived)
}

// judgeClients compares every client with its bounds over its whole run.
func (out *Report) judgeClients() {
	var whole, steady []float64
	for _, s := range out.clients {
		out.judge(s)
		bound := out.Promised.Bound(s.lastReceived - s.firstSent)
		whole = append(whole, float64(s.admitted)/min(bound, float64(s.answered)))
		earned := out.Promised.Refill * (s.lastReceived - max(s.firstSent, warmUp)).Seconds()
		if s.lateAnswered > 0 && earned > 0 {
			steady = append(steady, float64(s.lateAdmitted)/min(earned, float64(s.lateAnswered)))
		}
	}
	out.Utilisation, out.Steady = spread(whole), spread(steady)
}

// judge keeps a client's figures where they are the largest so far.
func (out *Report) judge(s *slot) {
	took := s.lastReceived - s.firstSent
	strict, bound := out.Limit.Bound(took), out.Promised.Bound(took)
	if gain := float64(s.admitted) / strict; gain >= out.Gain {
		out.Gain, out.StrictBound = gain, strict
	}
	if ofBound := float64(s.admitted) / bound; ofBound >= out.OfBound {
		out.OfBound, out.Bound = ofBound, bound
	}
}

func spread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	return Spread{Min: values[0], Median: values[len(values)/2]}
}

// judgeWindows compares every client with its bounds over every interval.
func (out *Report) judgeWindows() {
	out.Excess = -out.Limit.Capacity
	if !out.WindowsChecked {
		return
	}
	for all := out.admissions; len(all) > 0; {
		n := 1
		for n < len(all) && all[n].client == all[0].client {
			n++
		}
		one := intervalsOf(all[:n])
		strict := one.worst(out.Limit)
		promised := strict
		if out.Promised != out.Limit {
			promised = one.worst(out.Promised)
		}
		out.Worst, out.WorstOfBound = worseOf(out.Worst, strict), worseOf(out.WorstOfBound, promised)
		out.Excess = max(out.Excess, one.excess(out.Limit))
		all = all[n:]
	}
}

func worseOf(a, b Window) Window {
	if b.Gain > a.Gain {
		return b
	}
	return a
}

func addCounts(to, from map[string]int64) {
	for name, n := range from {
		to[name] += n
	}
}

// Bounds compare what was admitted with what a limit allows.
type Bounds struct {
	// StrictBound is C + r x t of the client with the largest gain. Gain is the
	// largest admitted/(C + r x t) of any client over its whole run, and Worst the
	// interval with the largest one of any client. A strict limit keeps both at or
	// below 1.
	StrictBound float64 `json:"strictBound"`
	Gain        float64 `json:"gain"`
	Worst       Window  `json:"worst"`
	// Bound, OfBound and WorstOfBound are the same against what the limit's own
	// enforcement promises, which keeps them at or below 1. For a strict limit they
	// are equal to the three above.
	Bound        float64 `json:"bound"`
	OfBound      float64 `json:"ofBound"`
	WorstOfBound Window  `json:"worstOfBound"`
}
