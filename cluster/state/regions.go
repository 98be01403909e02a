package state

import (
	"fmt"
	"regexp"
	"time"

	"aliquot/budget"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// MaxRegions is the largest number of declared regions. Every hot key stores one share for each region, and a floor
// must stay large enough to be useful.
const MaxRegions = 64

// RegionChange is an operator's change of one region.
type RegionChange int

// The changes; see the methods of budget.Ledger.
const (
	AddRegion RegionChange = iota + 1
	UpdateRegion
	DrainRegion
	FenceRegion
)

// Encode returns the change as the log has it.
func (c RegionChange) Encode() raftlogv1.ChangeRegion_Change {
	switch c {
	case AddRegion:
		return raftlogv1.ChangeRegion_CHANGE_ADD
	case UpdateRegion:
		return raftlogv1.ChangeRegion_CHANGE_UPDATE
	case DrainRegion:
		return raftlogv1.ChangeRegion_CHANGE_DRAIN
	case FenceRegion:
		return raftlogv1.ChangeRegion_CHANGE_FENCE
	}
	return raftlogv1.ChangeRegion_CHANGE_UNSPECIFIED
}

// Check refuses a change of a region that could never be accepted: its errors are those of package budget, or
// ErrInvalidArgument for a name. weight counts for AddRegion and UpdateRegion.
func (c RegionChange) Check(name string, weight int32) error {
	switch {
	case c == AddRegion && !regionName.MatchString(name):
		return CheckRegionNames([]string{name})
	case !regionName.MatchString(name):
		return budget.ErrUnknownRegion
	case c == AddRegion || c == UpdateRegion:
		return budget.CheckWeight(weight)
	}
	return nil
}

func (s *State) changeRegion(c *raftlogv1.ChangeRegion) error {
	if s.ClusterID == "" {
		return fmt.Errorf("%w: a region before the bootstrap", ErrInvalidArgument)
	}
	switch c.GetChange() {
	case raftlogv1.ChangeRegion_CHANGE_ADD:
		if err := s.checkNewRegion(c.GetName()); err != nil {
			return err
		}
		return s.Ledger.AddRegion(c.GetName(), c.GetWeight())
	case raftlogv1.ChangeRegion_CHANGE_UPDATE:
		return s.Ledger.UpdateRegion(c.GetName(), c.GetWeight())
	case raftlogv1.ChangeRegion_CHANGE_DRAIN:
		return s.Ledger.DrainRegion(c.GetName())
	case raftlogv1.ChangeRegion_CHANGE_FENCE:
		return s.Ledger.FenceRegion(c.GetName())
	}
	return fmt.Errorf("%w: a change of region %q that this version does not know", ErrInvalidArgument, c.GetName())
}

// checkNewRegion refuses a name that the bootstrap would refuse, too.
func (s *State) checkNewRegion(name string) error {
	names := []string{name}
	for _, r := range s.Ledger.Config.Regions {
		if r.Name != name {
			names = append(names, r.Name)
		}
	}
	return CheckRegionNames(names)
}

func (s *State) advanceFloors(a *raftlogv1.AdvanceFloors) error {
	acknowledged := make([]int, len(a.GetAcknowledged()))
	for i, region := range a.GetAcknowledged() {
		if region >= MaxRegions {
			return fmt.Errorf("%w: region index %d", budget.ErrUnknownRegion, region)
		}
		acknowledged[i] = int(region)
	}
	return s.Ledger.AdvanceFloors(a.GetConfigVersion(), budget.Progress{
		Acknowledged: acknowledged, Settled: a.GetSettled(), LeasesOver: a.GetLeasesOver(),
	})
}

func (s *State) setTiming(c *raftlogv1.SetTiming) error {
	if s.ClusterID == "" {
		return fmt.Errorf("%w: a timing before the bootstrap", ErrInvalidArgument)
	}
	if most := budget.MaxLease.Microseconds(); c.GetLeaseMicros() < 0 || c.GetLeaseMicros() > most {
		return budget.ErrBadTiming
	}
	return s.Ledger.SetTiming(time.Duration(c.GetLeaseMicros())*time.Microsecond, c.GetRhoPpm())
}

// maxShownName is the number of bytes of a refused name that an error repeats.
const maxShownName = 64

// shortName returns a name cut to maxShownName bytes, for use in errors.
func shortName(name string) string {
	if len(name) > maxShownName {
		return name[:maxShownName] + "..."
	}
	return name
}

var regionName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// CheckRegionNames returns ErrInvalidArgument for more than MaxRegions names, a name that occurs twice, or one that
// cannot be a metric label and part of a host name.
func CheckRegionNames(names []string) error {
	if len(names) > MaxRegions {
		return fmt.Errorf("%w: %d regions, at most %d", ErrInvalidArgument, len(names), MaxRegions)
	}
	seen := map[string]bool{}
	for _, name := range names {
		if !regionName.MatchString(name) {
			return fmt.Errorf("%w: region name %q: use 1 to 63 lower-case letters, digits, '.', '_' and '-', beginning and ending with a letter or digit", ErrInvalidArgument, shortName(name))
		}
		if seen[name] {
			return fmt.Errorf("%w: region %q is declared twice", ErrInvalidArgument, name)
		}
		seen[name] = true
	}
	return nil
}

// checkConfig checks a configuration a second time, after Config.Validate of package cluster. Floors that sum to
// more than the whole would break the promise for every key.
func checkConfig(c budget.Config) error {
	if len(c.Regions) == 0 || c.Lease <= 0 || c.LeaseWait < 0 || c.LeaseNext < 0 || c.RhoPPM < 0 || c.Version == 0 {
		return fmt.Errorf("%w: a configuration needs a region, a lease above 0, a rho of at least 0 and a version", ErrInvalidArgument)
	}
	var rate, burst int64
	names := make([]string, len(c.Regions))
	for i, r := range c.Regions {
		if r.Floor.Rate < 0 || r.Floor.Burst < 0 || !r.Told.Within(r.Floor) || r.Weight < 0 || r.Weight > budget.MaxWeight {
			return fmt.Errorf("%w: region %q has a floor or weight out of range", ErrInvalidArgument, r.Name)
		}
		rate, burst, names[i] = rate+int64(r.Floor.Rate), burst+int64(r.Floor.Burst), r.Name
	}
	if rate > budget.Unit || burst > budget.Unit {
		return fmt.Errorf("%w: floors sum to %d and %d of %d", ErrInvalidArgument, rate, burst, budget.Unit)
	}
	return CheckRegionNames(names)
}
