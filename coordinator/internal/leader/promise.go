package leader

import (
	"encoding/base64"
	"fmt"
	"time"

	"aliquot/budget"
	"aliquot/budget/promise"
	"aliquot/internal/entitlement"
	"aliquot/limit"
	"aliquot/rules"
)

// PromiseTerms returns the terms from which the promise of a limit under a rule is computed.
func PromiseTerms(rule *rules.Rule, l budget.KeyLimit, c *budget.Config, s Conditions) *promise.Terms {
	t := &promise.Terms{Limit: l, Config: c, Silent: s.Silent, Forgives: rule.Forgives, RoundTrip: s.maxRoundTrip(), Quorum: s.Commit, Pace: s.ReportInterval}
	switch rule.Enforcement {
	case rules.Elastic:
		t.Enforcement = promise.Elastic
	case rules.Independent:
		t.Enforcement = promise.Independent
	}
	switch a := rule.Limit.Algorithm; {
	case a == limit.Concurrency:
		t.Counts = promise.Slots
	case a.Logs():
		t.Counts = promise.Log
	case a.Counts():
		t.Counts = promise.Windows
	}
	if s.Commit == 0 {
		t.Quorum = -1
	}
	return t
}

// KeyLimit returns a limit of a rule in the units of package budget.
func KeyLimit(rule *rules.Rule, l limit.Limit) budget.KeyLimit {
	out := entitlement.KeyLimit(l)
	switch rule.Placement {
	case rules.Split:
		out.Placement = budget.PlacementSplit
	case rules.Home:
		out.Placement = budget.PlacementHome
	}
	return out
}

// Conditions are what a promise depends on besides the rule and the floors. Only the leader knows them.
// The zero value knows nothing.
type Conditions struct {
	RoundTrips     []time.Duration // by region; 0: not measured
	Commit         time.Duration   // 0: not measured
	Silent         []bool          // by region
	ReportInterval time.Duration   // the longest between two reports of one busy key
}

// conditions returns the Conditions as of now.
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

// maxRoundTrip returns the longest round trip of the regions that are not silent. It is negative if one
// of them is not measured yet, or if all are silent.
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

// FirstRegions returns the Conditions of the first regions only. It drops regions that were declared
// after the configuration was read.
func (s Conditions) FirstRegions(regions int) Conditions {
	regions = min(regions, len(s.RoundTrips))
	return Conditions{RoundTrips: s.RoundTrips[:regions], Silent: s.Silent[:regions], Commit: s.Commit, ReportInterval: s.ReportInterval}
}

// SilentNames returns the names of the silent regions.
func (s *Conditions) SilentNames(c *budget.Config) (names []string) {
	for i, silent := range s.Silent {
		if silent {
			names = append(names, c.Regions[i].Name)
		}
	}
	return names
}

// Fraction converts units of a share to a fraction of the whole limit. The result is exact because
// budget.Unit is a power of two.
func Fraction(units int32) float64 { return float64(units) / budget.Unit }

// GenerationText formats a generation for people: epoch.counter.
func GenerationText(g budget.Gen) string { return fmt.Sprintf("%d.%d", g.Epoch, g.Counter) }

// RatePerSecond returns what a limit admits over a long time, in tokens a second; 0 for slots, whose
// rate depends on how long they are held.
func RatePerSecond(l limit.Limit) float64 {
	if l.Algorithm == limit.Concurrency {
		return 0
	}
	return PerSecond(l.PerSecond())
}

// PerSecond converts a rate to tokens a second.
func PerSecond(r limit.Rate) float64 {
	return (float64(r.Micro) + float64(r.Frac)/1e6) / MicroToken
}

// HashText formats a key's hash as Redis key names have it, in 22 characters.
func HashText(k budget.KeyID) string { return base64.RawURLEncoding.EncodeToString(k.Hash[:]) }

// MicroToken is one token in micro-tokens.
const MicroToken = 1e6

// Tokens converts micro-tokens to tokens.
func Tokens(micro int64) float64 { return float64(micro) / MicroToken }
