package load

import (
	"cmp"
	"context"
	"slices"
)

// Pair is two loads that were run in turns, so that what else the machine does hits
// both.
type Pair struct {
	A, B []*Report
}

// RunPair runs a and b in turns, so many times each.
func RunPair(ctx context.Context, a, b Config, times int) (*Pair, error) {
	out := &Pair{}
	for range times {
		for _, side := range []struct {
			config  Config
			reports *[]*Report
		}{{a, &out.A}, {b, &out.B}} {
			r, err := Run(ctx, side.config)
			if err != nil {
				return nil, err
			}
			*side.reports = append(*side.reports, r)
		}
	}
	return out, nil
}

// Ratio is the median, over the pairs, of a's figure divided by b's; 0 if b never has
// one.
func (p *Pair) Ratio(figure func(*Report) float64) float64 {
	var ratios []float64
	for i, a := range p.A {
		if b := figure(p.B[i]); b != 0 {
			ratios = append(ratios, figure(a)/b)
		}
	}
	return median(ratios)
}

// Median is the median of a figure over reports; 0 without any.
func Median(reports []*Report, figure func(*Report) float64) float64 {
	var figures []float64
	for _, r := range reports {
		figures = append(figures, figure(r))
	}
	return median(figures)
}

// Middle is the report whose checks a second are the median; nil without any.
func Middle(reports []*Report) *Report {
	if len(reports) == 0 {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(reports), func(a, b *Report) int { return cmp.Compare(a.ChecksPerSecond, b.ChecksPerSecond) })
	return sorted[len(sorted)/2]
}

func median(figures []float64) float64 {
	if len(figures) == 0 {
		return 0
	}
	slices.Sort(figures)
	if n := len(figures); n%2 == 0 {
		return (figures[n/2-1] + figures[n/2]) / 2
	}
	return figures[len(figures)/2]
}

// ChecksPerSecond is that figure of a report, for Ratio and Median; so are those below.
func ChecksPerSecond(r *Report) float64 { return r.ChecksPerSecond }

// ServerCPU is in processor seconds for a million checks.
func ServerCPU(r *Report) float64 { return r.ServerCPU }

// RedisCPU is in processor seconds for a million checks.
func RedisCPU(r *Report) float64 { return r.RedisCPU }

// P50 is in seconds.
func P50(r *Report) float64 { return r.Latency.P50.Seconds() }

// P99 is in seconds.
func P99(r *Report) float64 { return r.Latency.P99.Seconds() }

// RedisCalls are calls a check.
func RedisCalls(r *Report) float64 { return r.RedisCallsPerCheck }
