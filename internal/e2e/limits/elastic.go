package limits

import (
	"context"
	"fmt"
	"time"

	"aliquot/internal/bench"
	"aliquot/internal/e2e"
	"aliquot/internal/e2e/clients"
	"aliquot/internal/e2e/promise"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// The values of enforcement in a rule.
const (
	strictly      = "strict"
	elastically   = "elastic"
	independently = "independent"
)

// settled is the time after which a saturating client has used its first burst, and its shares have reached the demand.
const settled = 3 * time.Second

// elasticLoad returns a client of the elastic rule. It sends each request to the next region, as fast as it can.
func elasticLoad(l *e2e.Cluster, d time.Duration) bench.Config {
	c := clients.BigLoad(l, d)
	c.Enforcement = elastically
	c.Attributes["plan"] = "burst"
	return c
}

// elastic: a key that was idle everywhere has one burst in each region. It does not have them again after a pause in
// which its bucket fills. Over a long time it gets the rate of the limit and no more.
func elastic(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	pauseFor := time.Duration(e2e.Big.Capacity / e2e.Big.Refill * float64(time.Second))
	rounds := elasticLoad(l, time.Duration(s.Rounds)*pauseFor+pauseFor/2)
	rounds.Rest = pauseFor
	burst, err := bench.Rotate(ctx, rounds)
	if err != nil {
		return nil, err
	}
	extra := float64(len(l.Regions)-1) * e2e.Big.Capacity
	seen := promise.AtLeast("burst, pause C/r, burst: extra burst seen / (N-1)C", burst.Excess/extra, .9)
	seen.Got += fmt.Sprintf(" (%.1f tokens above C + rt; %d admitted in %v, decided by %v)", burst.Excess, burst.Admitted,
		burst.Duration.Round(time.Millisecond), burst.Modes)
	out := append(within("burst, pause C/r, burst: ", burst), promise.AllAnswered(burst), seen,
		promise.AtLeast("bursts of it", float64(burst.Rests), float64(s.Rounds)))

	steady, err := bench.Rotate(ctx, elasticLoad(l, s.Run))
	if err != nil {
		return nil, err
	}
	// The last step of the series is cut short by the run's end.
	from, to := settled, s.Run
	rate := float64(clients.AdmittedBetween(steady.Series, from, to)) / (to - from).Seconds() / e2e.Big.Refill
	out = append(out, within("saturated: ", steady)...)
	return append(out, promise.AllAnswered(steady),
		promise.AtLeast("saturated: long-run rate / r, at least", rate, .99-s.Slack), promise.AtMost("saturated: long-run rate / r, at most", rate, 1.01)), nil
}

// within returns the promises of a run under a rule with a bound of its own. prefix begins their names.
func within(prefix string, r *bench.Report) []promise.Result {
	return []promise.Result{
		promise.AtMost(prefix+"admitted / its bound over the run", r.OfBound, 1),
		promise.AtMost(prefix+"admitted / its bound over its worst interval", r.WorstOfBound.Gain, 1),
	}
}

// enforcements: a rotating client gets its limit once if the rule is strict, a burst in each region if it is elastic,
// and the limit in each region if it is independent. The comparison leaves the rules as they were.
func enforcements(ctx context.Context, l *e2e.Cluster, s promise.Scale) ([]promise.Result, error) {
	at, err := l.Follower(ctx)
	if err != nil {
		return nil, err
	}
	before, err := rulesInForce(ctx, l, at)
	if err != nil {
		return nil, err
	}
	c := bench.CompareConfig{Config: clients.BigLoad(l, s.Run/3), Enforcements: []string{strictly, elastically, independently}}
	c.Coordinator = at.Address
	table, err := bench.Compare(ctx, c)
	if err != nil {
		return nil, err
	}
	after, err := rulesInForce(ctx, l, at)
	if err != nil {
		return nil, err
	}
	strict, burst, independent := table.Rows[0], table.Rows[1], table.Rows[2]
	out := []promise.Result{
		promise.AtMost("strict: gain", max(strict.Gain, strict.Worst.Gain), 1),
		promise.AtLeast("strict: utilisation", strict.Utilisation, .95-s.Slack),
		promise.AtMost("elastic: admitted / its bound", max(burst.OfBound, burst.WorstOfBound.Gain), 1),
		promise.AtLeast("independent: gain, about 3", independent.Gain, 2.7),
		promise.AtMost("independent: gain, about 3", independent.Gain, 3.01),
		promise.AtMost("independent: admitted / its bound", max(independent.OfBound, independent.WorstOfBound.Gain), 1),
		promise.None("checks without an answer", table.Failed(), ""),
	}
	same := promise.Result{Promise: "rules afterwards", Want: "as before", Got: "as before", OK: before == after}
	if !same.OK {
		same.Got = after
	}
	return append(out, same), nil
}

// rulesInForce returns the rules file that one coordinator has.
func rulesInForce(ctx context.Context, l *e2e.Cluster, at *e2e.Coordinator) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, e2e.CallWithin)
	defer cancel()
	answer, err := aliquotv1connect.NewRuleServiceClient(l.HTTP, rpc.BaseURL(at.Address)).GetRules(ctx, &aliquotv1.GetRulesRequest{})
	return answer.GetYaml(), err
}
