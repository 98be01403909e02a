package leader

import (
	"encoding/base64"
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/internal/rights"
	"aliquot/limit"
	"aliquot/rules"
)

// terms are what a promise of a limit under a rule is computed from.
func PromiseTerms(rule *rules.Rule, l budget.KeyLimit, c *budget.Config, s Conditions) *budget.Terms {
	t := &budget.Terms{Limit: l, Config: c, Silent: s.Silent, RoundTrip: s.maxRoundTrip(), Quorum: s.Commit, Pace: s.ReportInterval}
	switch rule.Enforcement {
	case rules.Elastic:
		t.Enforcement = budget.Elastic
	case rules.Independent:
		t.Enforcement = budget.Independent
	}
	switch rule.Limit.Algorithm {
	case limit.FixedWindow, limit.SlidingCounter:
		t.Counts = budget.Windows
	case limit.SlidingLog:
		t.Counts = budget.Log
	case limit.Concurrency:
		t.Counts = budget.Slots
	}
	if s.Commit == 0 {
		t.Quorum = -1
	}
	return t
}

// keyLimit is a limit of a rule as budgets count it.
func KeyLimit(rule *rules.Rule, l limit.Limit) budget.KeyLimit {
	out := rights.KeyLimit(l)
	switch rule.Placement {
	case rules.Split:
		out.Placement = budget.PlacementSplit
	case rules.Home:
		out.Placement = budget.PlacementHome
	}
	return out
}

// surroundings is what a promise depends on beside the rule and the floors; the
// leader knows it. The zero value knows nothing.
type Conditions struct {
	RoundTrips     []time.Duration // by region; 0: not measured
	Commit         time.Duration   // 0: not measured
	Silent         []bool          // by region
	ReportInterval time.Duration   // the largest between two reports of one busy key
}

// surroundings are as of now.
func (l *Loop) conditions(now budget.Instant) Conditions {
	s := Conditions{Commit: l.latencies.commit}
	for i := range l.ledger.Config.Regions {
		region := l.machine.Region(i, now, l.floors.steps.Tail())
		s.Silent = append(s.Silent, !region.Live && !region.Absent)
		s.RoundTrips = append(s.RoundTrips, l.latencies.minRoundTrip(i))
		if region.Live {
			s.ReportInterval = max(s.ReportInterval, l.latencies.reportInterval(i))
		}
	}
	return s
}

// farthest is the largest round trip of a region that is heard; negative if one was
// not measured yet, or none is heard.
func (s *Conditions) maxRoundTrip() time.Duration {
	longest := time.Duration(-1)
	for i, took := range s.RoundTrips {
		if s.Silent[i] {
			continue
		}
		if took == 0 {
			return -1
		}
		longest = max(longest, took)
	}
	return longest
}

// of leaves out the regions that were declared since the configuration was read.
func (s Conditions) FirstRegions(regions int) Conditions {
	regions = min(regions, len(s.RoundTrips))
	return Conditions{RoundTrips: s.RoundTrips[:regions], Silent: s.Silent[:regions], Commit: s.Commit, ReportInterval: s.ReportInterval}
}

// silentNames are the regions that are silent.
func (s *Conditions) SilentNames(c *budget.Config) (names []string) {
	for i, silent := range s.Silent {
		if silent {
			names = append(names, c.Regions[i].Name)
		}
	}
	return names
}

// fraction of the whole limit; exact, for a unit is a power of two.
func Fraction(units int32) float64 { return float64(units) / budget.Unit }

// generationText is a generation as people read it.
func GenerationText(g budget.Gen) string { return fmt.Sprintf("%d.%d", g.Epoch, g.Counter) }

// lasting is what a limit allows a second over long times; 0 for slots, of which it
// depends on how long they are held.
func RatePerSecond(l limit.Limit) float64 {
	if l.Algorithm == limit.Concurrency {
		return 0
	}
	return PerSecond(l.PerSecond())
}

func PerSecond(r limit.Rate) float64 {
	return (float64(r.Micro) + float64(r.Frac)/1e6) / MicroToken
}

// hashText is a key's hash as it stands in Redis key names: 22 characters.
func HashText(k budget.KeyID) string { return base64.RawURLEncoding.EncodeToString(k.Hash[:]) }

// microToken is one token in micro-tokens.
const MicroToken = 1e6

// tokens converts micro-tokens to tokens.
func Tokens(micro int64) float64 { return float64(micro) / MicroToken }
