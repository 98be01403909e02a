package coordinator

import (
	"time"

	"aliquot/budget"
)

// surroundings is what a promise depends on beside the rule and the floors; the
// leader knows it. The zero value knows nothing.
type surroundings struct {
	roundTrips []time.Duration // by region; 0: not measured
	quorum     time.Duration   // 0: not measured
	silent     []bool          // by region
	pace       time.Duration   // the largest between two reports of one busy key
}

// surroundings are as of now.
func (r *reign) surroundings(now budget.Instant) surroundings {
	s := surroundings{quorum: r.pace.quorum}
	for i := range r.ledger.Config.Regions {
		region := r.machine.Region(i, now, r.floors.steps.Tail())
		s.silent = append(s.silent, !region.Live && !region.Absent)
		s.roundTrips = append(s.roundTrips, r.pace.smallest(i))
		if region.Live {
			s.pace = max(s.pace, r.pace.keys(i))
		}
	}
	return s
}

// farthest is the largest round trip of a region that is heard; negative if one was
// not measured yet, or none is heard.
func (s *surroundings) farthest() time.Duration {
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
func (s surroundings) of(regions int) surroundings {
	regions = min(regions, len(s.roundTrips))
	return surroundings{roundTrips: s.roundTrips[:regions], silent: s.silent[:regions], quorum: s.quorum, pace: s.pace}
}

// silentNames are the regions that are silent.
func (s *surroundings) silentNames(c *budget.Config) (names []string) {
	for i, silent := range s.silent {
		if silent {
			names = append(names, c.Regions[i].Name)
		}
	}
	return names
}
