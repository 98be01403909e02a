package state

import (
	"fmt"
	"slices"
	"strings"

	raftlogv1 "aliquot/proto/raftlog/v1"
)

// Place is kept for a regional daemon that has stopped, so that the daemon can learn when it comes back whether
// another daemon of its region could spend meanwhile. A region has one at most.
type Place struct {
	Region string
	// Token is the number that the daemon chose when it stopped, never 0.
	Token uint64
	// TakenBy is the incarnation of the daemon that has named the token; 0: none has yet.
	TakenBy uint64
}

// PlaceOf returns the place of a region's daemon, and whether there is one.
func (s *State) PlaceOf(region string) (Place, bool) {
	i, found := s.findPlace(region)
	if !found {
		return Place{}, false
	}
	return s.Places[i], true
}

func (s *State) findPlace(region string) (int, bool) {
	return slices.BinarySearchFunc(s.Places, region, func(p Place, region string) int { return strings.Compare(p.Region, region) })
}

// changePlace keeps, gives or drops a place. A place that is not there, or that another incarnation has taken, is not
// given. That is no error: the proposer reads what became of it.
func (s *State) changePlace(c *raftlogv1.ChangePlace) (changed bool, err error) {
	i, found := s.findPlace(c.GetRegion())
	token, by := c.GetToken(), c.GetTakenBy()
	next := Place{Region: c.GetRegion(), Token: token, TakenBy: by}
	switch {
	case s.Ledger.Config.Index(c.GetRegion()) < 0:
		return false, fmt.Errorf("%w: a place in region %q", ErrInvalidArgument, shortName(c.GetRegion()))
	case token == 0 && found:
		s.Places = slices.Concat(s.Places[:i], s.Places[i+1:])
	case token != 0 && by == 0 && !found:
		s.Places = slices.Concat(s.Places[:i], []Place{next}, s.Places[i:])
	case token != 0 && found && (by == 0 || s.Places[i].Token == token && s.Places[i].TakenBy == 0):
		s.Places = slices.Clone(s.Places)
		s.Places[i] = next
	default:
		return false, nil
	}
	return true, nil
}

func encodePlaces(places []Place) []*raftlogv1.Place {
	out := make([]*raftlogv1.Place, len(places))
	for i, p := range places {
		out[i] = &raftlogv1.Place{Region: p.Region, Token: p.Token, TakenBy: p.TakenBy}
	}
	return out
}

func decodePlaces(in []*raftlogv1.Place) ([]Place, error) {
	if len(in) > MaxRegions {
		return nil, fmt.Errorf("%w: places in %d regions, at most %d", ErrInvalidArgument, len(in), MaxRegions)
	}
	var out []Place
	for i, p := range in {
		if p.GetToken() == 0 || i > 0 && p.GetRegion() <= out[i-1].Region {
			return nil, fmt.Errorf("%w: the place in region %q", ErrInvalidArgument, shortName(p.GetRegion()))
		}
		out = append(out, Place{Region: p.GetRegion(), Token: p.GetToken(), TakenBy: p.GetTakenBy()})
	}
	return out, nil
}
