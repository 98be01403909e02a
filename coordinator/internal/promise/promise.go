// Package promise describes what the regions together promise of a limit, as messages: its bounds with a
// sentence for each, what outdated rules may admit above it, and what each region may enforce.
package promise

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/budget"
	"aliquot/budget/promise"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/leader"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

// SetBounds sets the figures of the promise that any node knows. In t seconds all regions together
// admit at most capacity + worst-case excess + bound rate x t.
func SetBounds(b *aliquotv1.Budget, rule *rules.Rule, l limit.Limit, c *budget.Config) {
	p := leader.PromiseTerms(rule, leader.KeyLimit(rule, l), c, leader.Conditions{}).Promise()
	b.Enforcement = rule.Enforcement
	b.WorstCaseExcess = leader.Tokens(p.Excess)
	b.BoundRate = boundRate(rule, l, c)
}

// boundRate returns the rate that all regions together keep, in tokens a second: the rate of the limit
// with the drift of clocks; N times that if the regions are not coordinated; 0 for slots.
func boundRate(rule *rules.Rule, l limit.Limit, c *budget.Config) float64 {
	rate := leader.RatePerSecond(l) * (1 + float64(c.RhoPPM)/1e6)
	if rule.Enforcement == rules.Independent {
		rate *= float64(promise.Independents(c))
	}
	return rate
}

// Limit is a limit, as it was read, whose promise is to be described.
type Limit struct {
	rule   *rules.Rule
	limit  limit.Limit
	config budget.Config
}

// New copies what may change once the state is unlocked.
func New(s *clusterstate.State, rule *rules.Rule, l limit.Limit) *Limit {
	p := &Limit{rule: rule, limit: l, config: s.Ledger.Config}
	p.config.Regions = slices.Clone(p.config.Regions)
	return p
}

// ToWire returns the promise as a message, with a sentence for each bound.
func (p *Limit) ToWire(s leader.Conditions) *aliquotv1.Promise {
	s = s.FirstRegions(len(p.config.Regions))
	kept := leader.PromiseTerms(p.rule, leader.KeyLimit(p.rule, p.limit), &p.config, s).Promise()
	out := &aliquotv1.Promise{
		Bounds:   append(p.excessBounds(&kept), p.shortfallBounds(&kept, s)...),
		Measured: &aliquotv1.Measured{RoundTrips: map[string]*durationpb.Duration{}},
	}
	for i, took := range s.RoundTrips {
		if took != 0 {
			out.Measured.RoundTrips[p.config.Regions[i].Name] = durationpb.New(took)
		}
	}
	if s.Commit != 0 {
		out.Measured.Commit = durationpb.New(s.Commit)
	}
	return out
}

// Units of the bounds.
const (
	inTokens    = "tokens"
	inPerSecond = "tokens/s"
	inSeconds   = "s"
)

func newExcess(name string, value float64, unit, meaning string) *aliquotv1.Bound {
	return &aliquotv1.Bound{Name: name, Kind: "excess", Value: value, Unit: unit, Meaning: meaning}
}

func newShortfall(name string, value float64, unit, meaning string) *aliquotv1.Bound {
	return &aliquotv1.Bound{Name: name, Kind: "shortfall", Value: value, Unit: unit, Meaning: meaning}
}

func (p *Limit) excessBounds(kept *promise.Promise) []*aliquotv1.Bound {
	if kept.Counts == promise.Slots {
		return append([]*aliquotv1.Bound{
			newExcess("in_use", leader.Tokens(kept.Burst), inTokens, "all regions together have this much in use at a time, at most"),
			newExcess("excess", leader.Tokens(kept.Excess), inTokens, "how far that is above the capacity"),
		}, p.forgiven(kept)...)
	}
	out := []*aliquotv1.Bound{
		newExcess("admitted_burst", leader.Tokens(kept.Burst), inTokens, "all regions together admit this at once, at most"),
		newExcess("admitted_rate", boundRate(p.rule, p.limit, &p.config), inPerSecond, "and this much more each second; the drift of clocks is in it"),
		newExcess("excess", leader.Tokens(kept.Excess), inTokens, p.excessMeaning(kept)),
	}
	if kept.Window > 0 {
		out = append(out, newExcess("admitted_window", leader.Tokens(kept.Window), inTokens, "all regions together admit this in one window of their stores' clocks, at most"))
	}
	if kept.Moving > 0 {
		out = append(out, newExcess("excess_moving_floors", leader.Tokens(kept.Moving), inTokens,
			"the part of that which ends when every region has acknowledged its new floor"))
	}
	return append(out, p.forgiven(kept)...)
}

// forgiven is the bound of what a loss of a store forgives; none if that is nothing.
func (p *Limit) forgiven(kept *promise.Promise) []*aliquotv1.Bound {
	if kept.Forgiven == 0 {
		return nil
	}
	return []*aliquotv1.Bound{newExcess("excess_data_loss", leader.Tokens(kept.Forgiven), inTokens,
		"admitted besides, once for each time that a region's store loses its contents, at most (on_data_loss: forgive)")}
}

func (p *Limit) excessMeaning(kept *promise.Promise) string {
	switch {
	case kept.Excess == 0:
		return "how far the burst can be above the capacity: never"
	case p.rule.Enforcement == rules.Independent:
		return "how far the burst can be above the capacity: every region has a limit of its own"
	case kept.Counts == promise.Windows:
		return "how far the burst can be above the capacity: windows end and begin, on clocks up to a window apart"
	}
	return "how far the burst can be above the capacity: an idle key has its burst in the other regions too. It is earned again at the limit's rate"
}

func (p *Limit) shortfallBounds(kept *promise.Promise, s leader.Conditions) []*aliquotv1.Bound {
	if p.rule.Enforcement == rules.Independent {
		return []*aliquotv1.Bound{newShortfall("lost", 0, inTokens, "nothing: no region waits for another")}
	}
	out := []*aliquotv1.Bound{
		markUnmeasured(kept, newShortfall("share_moves_first", kept.ToHot.Seconds(), inSeconds,
			"the time until the share of an idle key has moved to the region that begins to use it, if nothing fails")),
		markUnmeasured(kept, newShortfall("lost_first_touch", leader.Tokens(kept.FirstTouch), inTokens,
			"requests that are refused in that time, at most; the tokens of the other regions follow the share")),
		markUnmeasured(kept, newShortfall("share_follows", kept.ToFollow.Seconds(), inSeconds,
			"the time until the share has followed a demand that moves to another region")),
		markUnmeasured(kept, newShortfall("lost_step", leader.Tokens(kept.Step), inTokens, "requests that are refused in that time, at most")),
		newShortfall("lost_steady_rate", leader.Tokens(kept.SteadyRate), inPerSecond,
			"what a region that is busy alone cannot get: the others keep a little, and less than 1 % is not moved"),
		newShortfall("lost_steady_burst", leader.Tokens(kept.SteadyBurst), inTokens, "the same of the burst"),
		newShortfall("lost_saturated", 0, inPerSecond, "what is lost while every region asks for its part or more: nothing"),
		newShortfall("lost_region_silent", leader.Tokens(kept.SilentRate), inPerSecond,
			"what it cannot get while one other region is silent: the floor of that region is reserved, too"),
	}
	if kept.Turn > 0 {
		out = append(out, newShortfall("home_turn", kept.Turn.Seconds(), inSeconds,
			"the time until a region has its turn if all use this small limit: one region at a time holds all of it"))
	}
	if names := s.SilentNames(&p.config); len(names) > 0 {
		out = append(out, newShortfall("reserved_now", leader.Tokens(kept.SilentNow), inPerSecond, "reserved now for regions that are silent: "+strings.Join(names, ", ")))
	}
	return append(out,
		newShortfall("cut_off_keeps", leader.Tokens(kept.KeptRate), inPerSecond,
			"a region that has lent its part and is cut off serves at least this"),
		newShortfall("lost_cut_off", leader.Tokens(kept.CutOffBurst), inTokens,
			"it has lent this much of its part, at most, and does not have it back for cut_off_time"),
		newShortfall("cut_off_time", kept.CutOff.Seconds(), inSeconds, "how long that lasts, at most"),
		newShortfall("cut_off_floor", leader.Tokens(kept.FloorRate), inPerSecond, "after that it serves this, from an empty bucket on, as long as it is cut off"),
	)
}

// markUnmeasured marks a bound that depends on measurements which are missing.
func markUnmeasured(p *promise.Promise, b *aliquotv1.Bound) *aliquotv1.Bound {
	if b.Unmeasured = !p.Measured; b.Unmeasured {
		b.Meaning += " (not known yet: a round trip or a commit has not been measured)"
	}
	return b
}

// Older is the limit of one rule and API key in a version of the rules that is not in force: an
// older version, or one that is or was staged.
type Older struct {
	version uint64
	limit   budget.KeyLimit
	// regions are the indices of the regions in which it was staged; nil: all regions.
	regions []int
}

// OlderLimits are the limits of one rule and API key that regions may still follow.
type OlderLimits struct {
	known []Older
	// forgotten is the highest version of the rules whose limit is not known; 0: none.
	forgotten uint64
	// independent: the rule has no common bound to break.
	independent bool
}

// NewOlderLimits returns the limits of a rule and API key at nowMS, in Unix milliseconds.
func NewOlderLimits(s *clusterstate.State, rule *rules.Rule, apiKey string, nowMS int64) OlderLimits {
	if rule.Enforcement == rules.Independent {
		return OlderLimits{independent: true}
	}
	out := OlderLimits{forgotten: s.Rules.Forgotten}
	for _, o := range s.Rules.Others() {
		if before := o.Set.Rule(rule.ID); before != nil {
			l, _ := before.LimitFor(apiKey, nowMS)
			other := Older{version: o.Version, limit: leader.KeyLimit(before, l)}
			for _, name := range o.Regions {
				other.regions = append(other.regions, s.Ledger.Config.Index(name))
			}
			out.known = append(out.known, other)
		}
	}
	return out
}

// SetResidual sets what regions that have not acknowledged the rules in force may admit above the
// limit. known is the status of the regions from the leader; nil: no leader has told it.
func SetResidual(b *aliquotv1.Budget, now budget.KeyLimit, older *OlderLimits, shares []budget.Share, known []budget.RegionStatus) {
	b.ResidualExcessUnknown = known == nil && !older.independent
	var out []promise.Outdated
	for i, share := range shares {
		o := promise.Outdated{Share: share}
		if i < len(known) && share != (budget.Share{}) && older.forgotten > 0 && known[i].RulesVersion <= older.forgotten {
			b.ResidualExcessUnknown = true
		}
		for _, l := range older.known {
			if i < len(known) && l.version >= known[i].RulesVersion && (l.regions == nil || slices.Contains(l.regions, i)) {
				o.Limit.Capacity = max(o.Limit.Capacity, l.limit.Capacity)
				o.Limit.Rate = max(o.Limit.Rate, l.limit.Rate)
			}
		}
		out = append(out, o)
	}
	burst, rate := promise.ResidualExcess(now, out)
	b.ResidualExcess, b.ResidualExcessRate = float64(burst)/leader.MicroToken, float64(rate)/leader.MicroToken
}

// Enforceable returns the most that each region may be enforcing of a key: its liability, and its floor
// for the case that it is silent.
func Enforceable(s *clusterstate.State, key budget.KeyID) []budget.Share {
	liability := s.Ledger.Shares(key)
	out := make([]budget.Share, len(s.Ledger.Config.Regions))
	for i := range out {
		out[i] = s.Ledger.Config.Regions[i].Floor
		if liability != nil {
			out[i] = out[i].Max(liability[i])
		}
	}
	return out
}
