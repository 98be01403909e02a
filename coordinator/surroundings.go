package coordinator

import (
	"time"

	"aliquot/budget"
)

// surroundings is what a promise depends on beside the rule and the floors; the
// leader knows it. The zero value knows nothing.
type conditions struct {
	roundTrips     []time.Duration // by region; 0: not measured
	commit         time.Duration   // 0: not measured
	silent         []bool          // by region
	reportInterval time.Duration   // the largest between two reports of one busy key
}

// surroundings are as of now.
func (l *leaderLoop) conditions(now budget.Instant) conditions {
	s := conditions{commit: l.latencies.commit}
	for i := range l.ledger.Config.Regions {
		region := l.machine.Region(i, now, l.floors.steps.Tail())
		s.silent = append(s.silent, !region.Live && !region.Absent)
		s.roundTrips = append(s.roundTrips, l.latencies.minRoundTrip(i))
		if region.Live {
			s.reportInterval = max(s.reportInterval, l.latencies.reportInterval(i))
		}
	}
	return s
}

// farthest is the largest round trip of a region that is heard; negative if one was
// not measured yet, or none is heard.
func (s *conditions) maxRoundTrip() time.Duration {
	longest := time.Duration(-1)
	for i, took := range s.roundTrips {
		if s.silent[i] {
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
func (s conditions) firstRegions(regions int) conditions {
	regions = min(regions, len(s.roundTrips))
	return conditions{roundTrips: s.roundTrips[:regions], silent: s.silent[:regions], commit: s.commit, reportInterval: s.reportInterval}
}

// silentNames are the regions that are silent.
func (s *conditions) silentNames(c *budget.Config) (names []string) {
	for i, silent := range s.silent {
		if silent {
			names = append(names, c.Regions[i].Name)
		}
	}
	return names
}
