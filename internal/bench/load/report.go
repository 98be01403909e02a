package load

import (
	"maps"
	"time"

	"aliquot/internal/bench/latency"
)

// Report is what a run measured. Figures that could not be measured are 0.
type Report struct {
	Protocol Protocol      `json:"protocol"`
	Address  string        `json:"address"`
	Duration time.Duration `json:"duration"` // measured, nanoseconds in JSON
	// Calls have one check each, or a batch of them.
	Calls   int64 `json:"calls"`
	Checks  int64 `json:"checks"`
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
	Failed  int64 `json:"failed"`
	// Errors are the failed checks by sort, Examples one message of each.
	Errors   map[string]int64  `json:"errors"`
	Examples map[string]string `json:"examples"`
	// Modes are the allowed and denied checks by what decided, where answers tell.
	Modes           map[string]int64 `json:"modes"`
	ChecksPerSecond float64          `json:"checksPerSecond"`
	// Latency is of calls: from sending to the answer, or from when a call was due.
	Latency latency.Summary `json:"latency"`
	// UnderWay is of calls from when they were sent, due or not: what the server adds.
	UnderWay latency.Summary `json:"underWay"`
	// Late is how much later than due calls were sent: what the generator itself adds.
	Late latency.Summary `json:"late"`
	// Processor seconds for a million checks.
	ServerCPU    float64 `json:"serverCpuSPerMillion"`
	RedisCPU     float64 `json:"redisCpuSPerMillion"`
	GeneratorCPU float64 `json:"generatorCpuSPerMillion"`
	// RedisCallsPerCheck counts scripts, or commands where no script is called.
	RedisCallsPerCheck float64 `json:"redisCallsPerCheck"`
}

// report folds what the connections saw.
func (r *run) report(lanes []*lane, used usage) *Report {
	out := &Report{
		Protocol: r.config.Protocol, Address: r.config.Address, Duration: r.until - r.from,
		Errors: map[string]int64{}, Examples: map[string]string{}, Modes: map[string]int64{},
	}
	var all tally
	var took, underWay, late latency.Histogram
	for _, l := range lanes {
		all.add(&l.tally)
		took.Merge(&l.took)
		underWay.Merge(&l.underWay)
		late.Merge(&l.late)
		for kind, n := range l.errors {
			out.Errors[kind] += n
			out.Failed += n
		}
		maps.Copy(out.Examples, l.example)
	}
	for i, n := range all.modes {
		if n > 0 {
			out.Modes[modes[i]] = n
		}
	}
	out.Calls, out.Checks, out.Allowed, out.Denied = all.calls, all.checks(), all.allowed, all.denied
	out.ChecksPerSecond = float64(out.Checks) / out.Duration.Seconds()
	out.Latency, out.UnderWay, out.Late = took.Summary(), underWay.Summary(), late.Summary()
	if out.Checks > 0 {
		n := float64(out.Checks)
		out.ServerCPU, out.RedisCPU, out.GeneratorCPU = used.server*1e6/n, used.redis*1e6/n, used.generator*1e6/n
		out.RedisCallsPerCheck = float64(used.redisCalls) / n
	}
	return out
}
