package compare

import "time"

// Outcome is what one limiter did under one workload.
type Outcome struct {
	Limiter  string `json:"limiter"`
	Workload string `json:"workload"`
	Offered  int    `json:"offered"`
	Admitted int    `json:"admitted"`
	// Ratio is the largest admitted/(C + r(1+rho)t) of any key over any interval, and
	// Gain the largest admitted/(C + rt) of any key over the whole run. OwnRatio is the
	// former against what the limiter itself promises: N C for an elastic limit.
	Ratio    float64 `json:"ratio"`
	OwnRatio float64 `json:"own_ratio"`
	Gain     float64 `json:"gain"`
	// Excess is the most admitted above C + r(1+rho)t over any interval, in bursts.
	Excess float64 `json:"excess"`
	// Utilisation is admitted over what the ideal bucket admits, since the workload
	// counts.
	Utilisation float64 `json:"utilisation"`
	// FalseRejections is the part of all requests that were denied and the ideal bucket
	// admits, less those that pay for an admission it denies.
	FalseRejections float64 `json:"false_rejections"`
	// LeastServed is the smallest admitted/min(demand, r/N) of any region that asks: what
	// the others leave it of its own part.
	LeastServed float64 `json:"least_served"`
	// Jain is Jain's index of what regions got of their max-min fair part.
	Jain float64 `json:"jain"`
	// MovesAMinute counts shares (or chunks) that moved.
	MovesAMinute float64 `json:"moves_a_minute"`
	// LatencyP50 and LatencyP99 are from the request to its answer.
	LatencyP50 time.Duration `json:"latency_p50"`
	LatencyP99 time.Duration `json:"latency_p99"`
	// Converged is how long after the step 95 % of the limit was used, if there is one.
	Converged time.Duration `json:"converged"`
	// Regions is what each region was asked and admitted since the workload counts.
	Regions []Part `json:"regions"`
}

// Part is one region's part of a run.
type Part struct {
	Offered  int `json:"offered"`
	Admitted int `json:"admitted"`
}

// usable is the part of the limit that counts as converged after a step.
const usable = .95

// outcome judges a run.
func (r *run) outcome(kind Kind) Outcome {
	out := Outcome{Limiter: kind.Name, Workload: r.load.Name, Excess: -1}
	false, ideally := 0, 0
	for k := range r.keys {
		r.judge(k, kind, &out)
		out.Offered += r.keys[k].offered
		false += r.keys[k].false
		ideally += r.keys[k].idealAdmitted
	}
	if out.Offered > 0 {
		out.FalseRejections = float64(false) / float64(out.Offered)
	}
	measured := 0
	for i, n := range r.admitted {
		measured += n
		out.Regions = append(out.Regions, Part{Offered: r.offered[i], Admitted: n})
	}
	if ideally > 0 {
		out.Utilisation = float64(measured) / float64(ideally)
	}
	span := r.load.Length - r.load.Measured
	out.MovesAMinute = float64(r.under.moves()-r.movesBefore) / span.Minutes()
	latency := sortedTimes(r.latency)
	out.LatencyP50, out.LatencyP99 = percentile(latency, .5), percentile(latency, .99)
	if len(r.keys) == 1 {
		r.judgeRegions(span, &out)
	}
	return out
}

// judge compares one key with its bounds.
func (r *run) judge(k int, kind Kind, out *Outcome) {
	h := r.keys[k].history.sorted()
	b := r.load.Keys[k]
	c, rate := float64(b.Capacity), float64(b.Rate)
	slack := rate * clockGrain.Seconds() * float64(len(r.load.RTTs))
	most := rate * (1 + rhoPPM/1e6)
	out.Ratio = max(out.Ratio, h.ratio(c+slack, most))
	own := c
	if kind.Elastic {
		own = c * float64(len(r.load.RTTs))
	}
	out.OwnRatio = max(out.OwnRatio, h.ratio(own+slack, most))
	over, _, _ := h.overdraft(most)
	out.Excess = max(out.Excess, (over-slack)/c-1)
	total := h.total(0, r.load.Length+afterTime)
	out.Admitted += total
	out.Gain = max(out.Gain, float64(total)/(c+rate*r.load.Length.Seconds()+slack))
	if r.load.Step > 0 && k == 0 {
		out.Converged = r.keys[k].to[r.load.StepTo].sorted().converged(r.load.Step, r.load.Length, usable*rate)
	}
}

// judgeRegions compares what each region got with its own part, and with its max-min
// fair one.
func (r *run) judgeRegions(span time.Duration, out *Outcome) {
	whole := float64(r.load.Keys[0].Rate) * span.Seconds()
	fair := fairParts(whole, r.offered)
	out.LeastServed = 1
	sum, squares, n := 0.0, 0.0, 0
	for i, part := range fair {
		if part == 0 {
			continue
		}
		got := float64(r.admitted[i])
		out.LeastServed = min(out.LeastServed, got/min(float64(r.offered[i]), whole/float64(len(fair))))
		x := got / part
		sum, squares, n = sum+x, squares+x*x, n+1
	}
	if squares > 0 {
		out.Jain = sum * sum / (float64(n) * squares)
	}
}

// fairParts divides an amount over demands, max-min fairly.
func fairParts(amount float64, demands []int) []float64 {
	out := make([]float64, len(demands))
	for range demands {
		open := 0
		for i, d := range demands {
			if out[i] < float64(d) {
				open++
			}
		}
		if open == 0 {
			break
		}
		each := amount / float64(open)
		for i, d := range demands {
			if give := min(each, float64(d)-out[i]); give > 0 {
				out[i] += give
				amount -= give
			}
		}
	}
	return out
}
