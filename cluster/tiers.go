package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

// TierEntry is the value of a tier, above the file, as a command set it. It is immutable.
type TierEntry struct {
	Value   rules.TierValue
	Author  string
	Comment string
	// UnixMS is the proposing leader's time, for display.
	UnixMS int64
	// Version is the version of the rules that it made.
	Version uint64
}

// TierChange sets the value of a tier or takes it away.
type TierChange struct {
	Value rules.TierValue
	// Remove takes the value away; of Value the tier alone counts then.
	Remove bool
	// Expected is the version of the rules that it was made against; nil: any.
	Expected *uint64
	Author   string
	Comment  string
}

// ChangeTier makes a change of a tier and returns the version of the rules that has it. A
// change that changes nothing returns the version in force. Errors wrap rules.ErrNotThere,
// rules.ErrBadEdit, ErrNothingInForce or ErrInvalidArgument, or are an ErrVersionConflict.
func (n *Node) ChangeTier(ctx context.Context, c TierChange) (version uint64, err error) {
	m := &raftlogv1.ChangeTier{
		Value: encodeTier(TierEntry{Value: c.Value}), Remove: c.Remove,
		Author: c.Author, Comment: c.Comment, UnixMs: time.Now().UnixMilli(),
	}
	if c.Expected != nil {
		m.HasExpected, m.ExpectedVersion = true, *c.Expected
	}
	return n.proposeVersion(ctx, &raftlogv1.Command{Kind: &raftlogv1.Command_ChangeTier{ChangeTier: m}})
}

// changeTier makes a version of the rules with other tier values, and another one of what
// is staged. The texts stay as they are.
func (s *State) changeTier(c *raftlogv1.ChangeTier) (version uint64, changed bool, err error) {
	b := s.Rules
	switch {
	case b.Version == 0:
		return 0, false, fmt.Errorf("%w: no rules are in force; apply a file first", ErrNothingInForce)
	case c.GetHasExpected() && c.GetExpectedVersion() != b.Version:
		return 0, false, ErrVersionConflict{Expected: c.GetExpectedVersion(), InForce: b.Version}
	}
	entry := TierEntry{
		Value:  rules.TierValuesOf([]*raftlogv1.TierValue{c.GetValue()})[0],
		Author: c.GetAuthor(), Comment: c.GetComment(), UnixMS: c.GetUnixMs(), Version: b.Last + 1,
	}
	at, found := findTier(b.Tiers, entry.Value.Tier)
	tiers := slices.Clone(b.Tiers)
	switch {
	case c.GetRemove() && !found:
		return 0, false, fmt.Errorf("%w: the tier %q has no value above the file", rules.ErrNotThere, shortName(entry.Value.Tier))
	case c.GetRemove():
		tiers = slices.Delete(tiers, at, at+1)
	case found && tiers[at].Value == entry.Value:
		return b.Version, false, nil
	default:
		if err := b.checkTier(entry.Value); err != nil {
			return 0, false, err
		}
		if found {
			tiers[at] = entry
			break
		}
		if len(tiers) == rules.MaxTierValues {
			return 0, false, fmt.Errorf("%w: %d tiers have a value, which is the most there may be; remove one", ErrInvalidArgument, len(tiers))
		}
		tiers = slices.Insert(tiers, at, entry)
	}
	s.setRules(b.withTiers(tiers, c))
	return s.Rules.Version, true, nil
}

// checkTier accepts a value that the rules in force can have, or those that are staged.
func (b *RuleBook) checkTier(v rules.TierValue) error {
	err := b.Set.CheckTierValue(v)
	if err != nil && b.Rollout.UnderWay() && b.Rollout.Set.CheckTierValue(v) == nil {
		return nil
	}
	return err
}

// withTiers is the book under other tier values: a version of the text in force and, while
// one is staged, a version of that, which stays the later one.
func (b RuleBook) withTiers(tiers []TierEntry, c *raftlogv1.ChangeTier) RuleBook {
	b.Older = b.older(OlderRules{Version: b.Version, Set: b.Set})
	b.Tiers = tiers
	add := func(text string, base uint64) RuleVersion {
		b.Last++
		v := newRuleVersion(b.Last, base, &raftlogv1.ApplyRules{Yaml: text, Author: c.GetAuthor(), Comment: c.GetComment(), UnixMs: c.GetUnixMs()})
		b.History = keptVersions(b.History, v)
		return v
	}
	v := add(b.YAML, b.Version)
	b.Version, b.Author, b.Comment, b.UnixMS = v.Version, v.Author, v.Comment, v.UnixMS
	b.Set = b.Set.With(tierValues(tiers))
	if b.Rollout.UnderWay() {
		r := *b.Rollout
		b.Older = b.older(OlderRules{r.Version, r.Set, r.Regions})
		r.Base, r.Version = b.Version, add(r.YAML, r.Version).Version
		r.Set = r.Set.With(tierValues(tiers))
		b.Rollout = &r
	}
	return b.indexed()
}

// findTier returns the place of a tier among sorted entries, and whether it is there.
func findTier(tiers []TierEntry, tier string) (int, bool) {
	return slices.BinarySearchFunc(tiers, tier, func(e TierEntry, tier string) int { return cmp.Compare(e.Value.Tier, tier) })
}

func tierValues(tiers []TierEntry) []rules.TierValue {
	out := make([]rules.TierValue, len(tiers))
	for i := range tiers {
		out[i] = tiers[i].Value
	}
	return out
}

func encodeTier(e TierEntry) *raftlogv1.TierValue {
	return &raftlogv1.TierValue{
		Tier: e.Value.Tier, Capacity: e.Value.Capacity, Limit: e.Value.Limit, RefillRate: e.Value.RefillRate, WindowMicros: e.Value.Window.Microseconds(),
		Author: e.Author, Comment: e.Comment, UnixMs: e.UnixMS, Version: e.Version,
	}
}

func encodeTiers(tiers []TierEntry) []*raftlogv1.TierValue {
	out := make([]*raftlogv1.TierValue, len(tiers))
	for i := range tiers {
		out[i] = encodeTier(tiers[i])
	}
	return out
}

// decodeTiers wants tiers in order: they are searched by name.
func decodeTiers(in []*raftlogv1.TierValue) ([]TierEntry, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]TierEntry, len(in))
	values := rules.TierValuesOf(in)
	for i, m := range in {
		out[i] = TierEntry{Value: values[i], Author: m.GetAuthor(), Comment: m.GetComment(), UnixMS: m.GetUnixMs(), Version: m.GetVersion()}
		if i > 0 && out[i].Value.Tier <= out[i-1].Value.Tier {
			return nil, fmt.Errorf("the value of tier %q is out of order", shortName(out[i].Value.Tier))
		}
	}
	return out, nil
}
