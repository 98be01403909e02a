package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

const (
	// temporaryPrefix begins the ids of temporary rules.
	temporaryPrefix = "bench-rotate-"
	// markAttribute is what temporary rules match on.
	markAttribute = "bench"
	// keyAttribute is what their buckets are for.
	keyAttribute = "api_key"
	// inForceWithin bounds the time until every region has the temporary rules; two
	// seconds are promised.
	inForceWithin = 15 * time.Second
	// askRegionEvery is how often a region is asked whether it has them.
	askRegionEvery = 50 * time.Millisecond
)

// CompareConfig describes a comparison of enforcements.
type CompareConfig struct {
	// Config is the load. Its Limit is that of the temporary rules, and an attribute
	// api_key must be among its Attributes.
	Config
	// Enforcements to compare, in this order; each once.
	Enforcements []string
	// Progress is told what is being done; nil: nobody is.
	Progress func(string)
}

// Validate says what is wrong, naming the flags.
func (c CompareConfig) Validate() error {
	var errs []error
	if len(c.Enforcements) == 0 {
		errs = append(errs, fmt.Errorf("--compare: name at least one of %s", enforcementNames))
	}
	for i, name := range c.Enforcements {
		if !knownEnforcement(name) {
			errs = append(errs, fmt.Errorf("--compare %q: give %s", name, enforcementNames))
		}
		if slices.Contains(c.Enforcements[:i], name) {
			errs = append(errs, fmt.Errorf("--compare names %s twice", name))
		}
	}
	if !c.Limit.known() {
		errs = append(errs, errors.New("--compare: give the temporary rules' --capacity and --refill"))
	}
	if c.Coordinator == "" {
		errs = append(errs, errors.New("--compare: name a --coordinator, where the temporary rules are applied"))
	}
	if c.Attributes[keyAttribute] == "" {
		errs = append(errs, fmt.Errorf("--attr: --compare needs %s among the attributes", keyAttribute))
	}
	if c.Enforcement != "" {
		errs = append(errs, errors.New("--enforcement: --compare names the enforcements"))
	}
	return errors.Join(append(errs, c.Config.Validate())...)
}

// Comparison is one table: the same load under the same limit, enforced in
// different ways.
type Comparison struct {
	Limit    Limit         `json:"limit"`
	Duration time.Duration `json:"duration"` // of each run, nanoseconds in JSON
	Regions  int           `json:"regions"`
	Rows     []Compared    `json:"rows"`
}

// Compared is one run of a comparison; the figures are explained at Report.
type Compared struct {
	Enforcement string        `json:"enforcement"`
	Run         string        `json:"run"`
	Duration    time.Duration `json:"duration"`
	Offered     int64         `json:"offered"`
	Admitted    int64         `json:"admitted"`
	Bounds
	Utilisation float64          `json:"utilisation"` // the least of the clients
	Failed      int64            `json:"failed"`
	Errors      map[string]int64 `json:"errors"`
	Exceeded    bool             `json:"exceeded"` // of its own bound
}

// Exceeded reports whether a run passed the bound of its own enforcement.
func (c *Comparison) Exceeded() bool {
	return slices.ContainsFunc(c.Rows, func(r Compared) bool { return r.Exceeded })
}

// Failed counts the checks without an answer in all runs.
func (c *Comparison) Failed() (n int64) {
	for _, r := range c.Rows {
		n += r.Failed
	}
	return n
}

// Compare drives the load once under each enforcement. It puts temporary rules
// beside those in force, which match an attribute that nobody else sends, and takes
// them out at the end, also when ctx ends early or something fails.
func Compare(ctx context.Context, c CompareConfig) (_ *Comparison, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Run == "" {
		c.Run = newRunName()
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	regions, err := countRegions(ctx, c.Coordinator)
	if err != nil {
		return nil, err
	}
	targets, err := dialTargets(&c.Config)
	if err != nil {
		return nil, err
	}
	defer closeTargets(targets)
	t, err := readRules(ctx, c.Coordinator, c.Run)
	if err != nil {
		return nil, err
	}
	trials, err := c.trials(t.original, regions)
	if err != nil {
		return nil, err
	}
	defer func() {
		c.Progress("taking the temporary rules out")
		err = errors.Join(err, t.remove(ctx))
	}()
	c.Progress(fmt.Sprintf("adding %d temporary rules to version %d", len(trials), t.before))
	if err := t.add(ctx, ruleTexts(trials)); err != nil {
		return nil, err
	}
	return c.drive(ctx, targets, trials)
}

// trial is one run with its temporary rule.
type trial struct {
	config Config
	promise
	id       string
	ruleText string
}

func ruleTexts(trials []trial) []string {
	out := make([]string, len(trials))
	for i := range trials {
		out[i] = trials[i].ruleText
	}
	return out
}

// trials plans the runs, under the rules that are in force.
func (c *CompareConfig) trials(rulesInForce string, regions int) ([]trial, error) {
	set := new(rules.Set)
	if rulesInForce != "" {
		var err error
		if set, _, err = rules.Parse("rules in force", []byte(rulesInForce)); err != nil {
			return nil, fmt.Errorf("this program does not understand them: %w", err)
		}
	}
	var out []trial
	for _, enforcement := range c.Enforcements {
		t := trial{config: c.Config, promise: promise{limit: c.Limit, enforcement: enforcement, regions: regions}}
		t.id = temporaryPrefix + enforcement + "-" + c.Run
		t.config.Run = c.Run + "-" + enforcement
		t.config.Attributes = maps.Clone(c.Attributes)
		t.config.Attributes[markAttribute] = "rotate-" + enforcement + "-" + c.Run
		others, err := othersThatMatch(set, request(&t.config, t.config.Run, 0).Attributes)
		if err != nil {
			return nil, err
		}
		t.ruleText = t.rule(others)
		out = append(out, t)
	}
	return out, nil
}

// othersThatMatch names the rules that would limit the run as well.
func othersThatMatch(set *rules.Set, attributes map[string]string) (ids []string, err error) {
	list, matched := set.Match(rules.AttributesOf(attributes), time.Now().UnixMilli(), nil)
	if list != rules.None {
		return nil, fmt.Errorf("--attr: the key %q is %s, so that no rule applies to it; use another", attributes[keyAttribute], list)
	}
	for _, m := range matched {
		ids = append(ids, strconv.Quote(m.Rule.ID))
	}
	if len(ids) > rules.MaxReplaces {
		return nil, fmt.Errorf("%d rules in force match the requests; a temporary rule can replace %d: send other attributes with --attr", len(ids), rules.MaxReplaces)
	}
	return ids, nil
}

// rule is the temporary rule on one line of YAML. It states all that it could
// inherit, and replaces the others for its own requests.
func (t *trial) rule(others []string) string {
	plain := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	text := fmt.Sprintf(`{id: %q, match: {attributes: {%s: %q}}, key: [%s], algorithm: %s, params: {capacity: %s, refill_rate: %s}, `+
		`enforcement: %s, placement: %s, on_redis_failure: %s, shadow: false`,
		t.id, markAttribute, t.config.Attributes[markAttribute], keyAttribute, rules.TokenBucket,
		plain(t.limit.Capacity), plain(t.limit.Refill), t.enforcement, rules.Split, rules.FailLocal)
	if len(others) > 0 {
		text += ", replaces: [" + strings.Join(others, ", ") + "]"
	}
	return text + "}"
}

// drive makes the runs, one after the other.
func (c *CompareConfig) drive(ctx context.Context, targets []*target, trials []trial) (*Comparison, error) {
	out := &Comparison{Limit: c.Limit, Duration: c.Duration, Regions: len(c.Regions)}
	for i := range trials {
		t := &trials[i]
		if err := t.awaitRule(ctx, targets); err != nil {
			return nil, err
		}
		c.Progress(fmt.Sprintf("%s: driving %d regions for %v", t.enforcement, len(targets), c.Duration))
		r := drive(ctx, &t.config, targets, t.promise)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted after %d of %d runs: %w", i, len(trials), context.Cause(ctx))
		}
		c.Progress(fmt.Sprintf("%s: admitted %d of %d", t.enforcement, r.Admitted, r.Offered))
		out.Rows = append(out.Rows, compared(r))
	}
	return out, nil
}

func compared(r *Report) Compared {
	return Compared{
		Enforcement: r.Enforcement, Run: r.Run, Duration: r.Duration, Offered: r.Offered, Admitted: r.Admitted,
		Bounds:      r.Bounds,
		Utilisation: r.Utilisation.Min, Failed: r.Failed, Errors: r.Errors, Exceeded: r.Exceeded(),
	}
}

// awaitRule returns when every region decides the run's requests by its rule. It
// asks as a client that does not take part.
func (t *trial) awaitRule(ctx context.Context, targets []*target) error {
	ctx, cancel := context.WithTimeout(ctx, inForceWithin)
	defer cancel()
	probe := []*aliquotv1.CheckRequest{request(&t.config, t.config.Run+"-probe", 0)}
	for _, region := range targets {
		for {
			answers, err := region.send(ctx, probe)
			if err == nil && answers[0].GetRuleId() == t.id {
				break
			}
			if err == nil {
				err = fmt.Errorf("it still decides by rule %q (mode %s)", answers[0].GetRuleId(), answers[0].GetMode())
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the temporary rule %s does not come into force at %s: %w", t.id, region.address, err)
			case <-time.After(askRegionEvery):
			}
		}
	}
	return nil
}
