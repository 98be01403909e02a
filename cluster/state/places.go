package state

import (
	"fmt"
	"slices"
	"strings"

	"aliquot/internal/place"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// RegionPlace is the place that is kept for a daemon of a region that has stopped.
type RegionPlace struct {
	Region string
	place.Place
}

// PlaceOf returns the place that is kept in a region; zero: none is.
func (s *State) PlaceOf(region string) place.Place {
	if i, found := s.findPlace(region); found {
		return s.Places[i].Place
	}
	return place.Place{}
}

func (s *State) findPlace(region string) (int, bool) {
	return slices.BinarySearchFunc(s.Places, region, func(p RegionPlace, region string) int { return strings.Compare(p.Region, region) })
}

// changePlace keeps a place, or applies a Hello to it.
func (s *State) changePlace(c *raftlogv1.ChangePlace) (changed bool, err error) {
	if s.Ledger.Config.Index(c.GetRegion()) < 0 {
		return false, fmt.Errorf("%w: a place in region %q", ErrInvalidArgument, shortName(c.GetRegion()))
	}
	i, found := s.findPlace(c.GetRegion())
	before := s.PlaceOf(c.GetRegion())
	next := place.Place{Token: c.GetToken()}
	if by := c.GetHelloOf(); by != 0 {
		next = before.AfterHello(c.GetToken(), by)
	}
	after := s.Places[i:]
	if found {
		after = s.Places[i+1:]
	}
	var kept []RegionPlace
	if next.Token != 0 {
		kept = []RegionPlace{{c.GetRegion(), next}}
	}
	s.Places = slices.Concat(s.Places[:i], kept, after)
	return next != before, nil
}

func encodePlaces(places []RegionPlace) []*raftlogv1.Place {
	out := make([]*raftlogv1.Place, len(places))
	for i, p := range places {
		out[i] = &raftlogv1.Place{Region: p.Region, Token: p.Token, TakenBy: p.TakenBy}
	}
	return out
}

func decodePlaces(in []*raftlogv1.Place) ([]RegionPlace, error) {
	if len(in) > MaxRegions {
		return nil, fmt.Errorf("%w: places in %d regions, at most %d", ErrInvalidArgument, len(in), MaxRegions)
	}
	var out []RegionPlace
	for i, p := range in {
		if p.GetToken() == 0 || i > 0 && p.GetRegion() <= out[i-1].Region {
			return nil, fmt.Errorf("%w: the place in region %q", ErrInvalidArgument, shortName(p.GetRegion()))
		}
		out = append(out, RegionPlace{p.GetRegion(), place.Place{Token: p.GetToken(), TakenBy: p.GetTakenBy()}})
	}
	return out, nil
}
