package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/coordinator/internal/leader"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

const (
	// maxTTL is the longest ttl, practically for ever.
	maxTTL = 10 * 365 * 24 * time.Hour
	minTTL = time.Second
)

// EditRules changes the entries that hold above the rules file.
func (s *ruleService) EditRules(ctx context.Context, req *aliquotv1.EditRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
	if err := checkWords(req.GetAuthor(), req.GetComment()); err != nil {
		return nil, toRPC(err)
	}
	change, err := entriesChange(req, time.Now().UnixMilli())
	if err != nil {
		return nil, toRPC(err)
	}
	return atLeader(ctx, s, req, (*peer).EditRules, inForce, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
		return s.changeEntries(ctx, change)
	})
}

// changeEntries makes a change of entries. The answer shows the new limits of the rules of a tier.
func (s *ruleService) changeEntries(ctx context.Context, c cluster.EntriesChange) (*aliquotv1.ApplyRulesResponse, error) {
	if !s.node.Leads() {
		return nil, s.node.NotLeader()
	}
	done, err := s.changes.Begin(ctx) // each answer shows the effect of its change alone
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.node.Barrier(ctx); err != nil {
		return nil, err
	}
	before, last := s.ruleSet()
	version, err := s.node.ChangeEntries(ctx, c)
	if err != nil {
		return nil, err
	}
	res := &aliquotv1.ApplyRulesResponse{Version: version}
	after, _ := s.ruleSet()
	s.node.View(func(state *clusterstate.State) {
		changes := state.Rules.EntryChanges
		if i := slices.IndexFunc(changes, func(c clusterstate.EntryChange) bool { return c.Version == version }); i >= 0 && version > last {
			res.EntryChange = entryChangeToWire(&changes[i])
		}
	})
	for i := range c.Put {
		res.Warnings = append(res.Warnings, entryWarnings(&c.Put[i], after)...)
	}
	tier, removed := tierChanged(c)
	for _, r := range after.Rules() {
		if tier != "" && r.Tier == tier {
			res.TierRules = append(res.TierRules, tierRule(before.Rule(r.ID), r, removed))
		}
	}
	return res, nil
}

// entryWarnings returns warnings about an entry under the rules in force.
func entryWarnings(e *rules.Entry, set *rules.Set) (out []string) {
	if _, why := set.Effect(e); why != "" {
		out = append(out, fmt.Sprintf("%v is without effect: %s", e.EntryID, why))
	}
	if r := set.Rule(e.Rule); r != nil && !slices.Contains(r.Key, "api_key") {
		out = append(out, fmt.Sprintf("%v: its API keys share their buckets with others, which have another limit; add api_key to the key of rule %s", e.EntryID, r.ID))
	}
	return out
}

// tierChanged returns the tier that a change concerns, and whether its value is removed; "" if it
// concerns none.
func tierChanged(c cluster.EntriesChange) (tier string, removed bool) {
	switch {
	case len(c.Put) == 1 && c.Put[0].Kind == rules.TierEntry:
		return c.Put[0].Name, false
	case len(c.Remove) == 1 && c.Remove[0].Kind == rules.TierEntry:
		return c.Remove[0].Name, true
	}
	return "", false
}

// ruleSet returns the rules in force here and their version; an empty set and 0 before the first.
func (s *ruleService) ruleSet() (set *rules.Set, version uint64) {
	set = new(rules.Set)
	s.node.View(func(state *clusterstate.State) {
		if version = state.Rules.Version; version > 0 {
			set = state.Rules.Set
		}
	})
	return set, version
}

// entriesChange returns the change that a request asks for. A ttl counts from nowMS, in Unix
// milliseconds.
func entriesChange(req *aliquotv1.EditRulesRequest, nowMS int64) (c cluster.EntriesChange, err error) {
	c = cluster.EntriesChange{Expected: req.ExpectedVersion, Author: req.GetAuthor(), Comment: req.GetComment()}
	put := func(e rules.Entry, name string) {
		c.Put, c.Comment = []rules.Entry{e}, cmp.Or(c.Comment, editName(name, e.Reason))
	}
	remove := func(id rules.EntryID, name string) {
		c.Remove, c.Comment = []rules.EntryID{id}, cmp.Or(c.Comment, name)
	}
	switch of := req.GetEdit().(type) {
	case *aliquotv1.EditRulesRequest_Block:
		e, err := listEntry(rules.BlockEntry, of.Block, nowMS)
		put(e, e.EntryID.String())
		return c, err
	case *aliquotv1.EditRulesRequest_Allow:
		e, err := listEntry(rules.AllowEntry, of.Allow, nowMS)
		put(e, e.EntryID.String())
		return c, err
	case *aliquotv1.EditRulesRequest_Unlist:
		if of.Unlist == "" {
			return c, invalid("unlist: say which pattern")
		}
		remove(rules.EntryID{Name: of.Unlist}, fmt.Sprintf("unlist %q", shorten(of.Unlist)))
		return c, nil
	case *aliquotv1.EditRulesRequest_Override:
		e, err := overrideEntry(of.Override, nowMS)
		what := fmt.Sprintf("override of %q in %s", shorten(e.Name), shorten(e.Rule))
		if of.Override.GetRemove() {
			remove(e.EntryID, "remove the "+what)
		} else {
			put(e, "set the "+what)
		}
		return c, err
	case *aliquotv1.EditRulesRequest_Tier:
		e, err := tierEntry(of.Tier)
		if of.Tier.GetRemove() {
			remove(e.EntryID, fmt.Sprintf("remove the value of the tier %q", shorten(e.Name)))
		} else {
			put(e, fmt.Sprintf("set the tier %q: %v", shorten(e.Name), e.ParamsText))
		}
		return c, err
	case *aliquotv1.EditRulesRequest_Entries:
		return manyEntries(c, of.Entries)
	}
	return c, invalid("say what to edit: block, allow, unlist, override, tier or entries")
}

func manyEntries(c cluster.EntriesChange, m *aliquotv1.EntriesEdit) (cluster.EntriesChange, error) {
	if len(m.GetPut())+len(m.GetRemove()) > rules.MaxEntries {
		return c, invalid("entries: %d at once, at most %d", len(m.GetPut())+len(m.GetRemove()), rules.MaxEntries)
	}
	if len(m.GetPut())+len(m.GetRemove()) == 0 && !m.GetReplace() {
		return c, invalid("entries: say what to put or remove")
	}
	c.Put, c.Replace, c.WithoutEffect = rules.EntriesOf(m.GetPut()), m.GetReplace(), m.GetWithoutEffect()
	for _, id := range rules.EntriesOf(m.GetRemove()) {
		if id.Name == "" || !utf8.ValidString(id.Name+id.Rule) {
			return c, invalid("entries: name what to remove, in UTF-8")
		}
		c.Remove = append(c.Remove, id.EntryID)
	}
	c.Comment = cmp.Or(c.Comment, fmt.Sprintf("put %d entries, remove %d", len(c.Put), len(c.Remove)))
	for i := range c.Put {
		if err := c.Put[i].Check(); err != nil {
			return c, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return c, nil
}

func listEntry(kind rules.EntryKind, m *aliquotv1.ListEdit, nowMS int64) (e rules.Entry, err error) {
	e = rules.Entry{EntryID: rules.EntryID{Kind: kind, Name: m.GetPattern()}}
	if e.Name == "" {
		return e, invalid("%s: say which pattern", kind)
	}
	e.Note, err = entryNote(string(kind), m.GetTtl(), m.GetReason(), nowMS)
	return e, err
}

func overrideEntry(m *aliquotv1.OverrideEdit, nowMS int64) (e rules.Entry, err error) {
	e = rules.Entry{EntryID: rules.EntryID{Kind: rules.OverrideEntry, Rule: m.GetRuleId(), Name: m.GetPattern()}, ParamsText: paramsOf(m)}
	none := e.ParamsText == rules.ParamsText{}
	switch {
	case e.Rule == "" || e.Name == "":
		return e, invalid("override: say which rule and which pattern")
	case m.GetRemove() && (!none || m.GetTtl() != nil || m.GetReason() != ""):
		return e, invalid("override: one that is removed has no limit, ttl or reason")
	case !m.GetRemove() && none:
		return e, invalid("override: say capacity, limit, refill_rate or window")
	}
	e.Note, err = entryNote("override", m.GetTtl(), m.GetReason(), nowMS)
	return e, err
}

func tierEntry(m *aliquotv1.TierEdit) (rules.Entry, error) {
	e := rules.Entry{EntryID: rules.EntryID{Kind: rules.TierEntry, Name: m.GetTier()}, ParamsText: paramsOf(m)}
	none := e.ParamsText == rules.ParamsText{}
	switch {
	case m.GetTier() == "" || !utf8.ValidString(m.GetTier()): // a URL may contain anything
		return e, invalid("tier: say which, in UTF-8")
	case m.GetRemove() && !none:
		return e, invalid("tier: one whose value is removed has no limit")
	case !m.GetRemove() && none:
		return e, invalid("tier: state limit, capacity or refill_rate")
	}
	return e, nil
}

// limitNumbers are the numbers of a limit in an edit.
type limitNumbers interface {
	GetCapacity() int64
	GetLimit() int64
	GetRefillRate() float64
	GetWindow() *durationpb.Duration
}

func paramsOf(m limitNumbers) rules.ParamsText {
	p := rules.ParamsText{Capacity: m.GetCapacity(), Limit: m.GetLimit(), Window: m.GetWindow().AsDuration()}
	if rate := m.GetRefillRate(); rate != 0 {
		p.RefillRate = strconv.FormatFloat(rate, 'f', -1, 64)
	}
	return p
}

// entryNote returns the reason and the end of an entry. Without a ttl the entry has no end.
func entryNote(what string, m *durationpb.Duration, reason string, nowMS int64) (rules.Note, error) {
	n := rules.Note{Reason: reason}
	if m == nil {
		return n, nil
	}
	ttl := m.AsDuration()
	if ttl < minTTL || ttl > maxTTL {
		return n, invalid("%s: ttl is %s; give %s to %s, or nothing for good", what, ttl, minTTL, maxTTL)
	}
	n.UntilMS = nowMS + ttl.Milliseconds()
	return n, nil
}

// editName returns the default comment of an edit: its name and its reason.
func editName(name, reason string) string {
	if reason == "" {
		return name
	}
	return name + ": " + reason
}

func tierRule(before, after *rules.Rule, removed bool) *aliquotv1.TierRule {
	out := &aliquotv1.TierRule{RuleId: after.ID, After: tierLimit(after)}
	if before != nil {
		out.Before = tierLimit(before)
	}
	if !removed && !after.SetForTier {
		out.WhyNot = fmt.Sprintf("it counts %s; the value of a tier is for rules that count %s", after.Unit, rules.UnitRequests)
	}
	return out
}

func tierLimit(r *rules.Rule) *aliquotv1.TierLimit {
	out := &aliquotv1.TierLimit{Limit: int64(r.Limit.Capacity / limit.Token), Window: durationpb.New(r.Window)}
	if !r.Limit.Algorithm.Counts() {
		out.RefillRate = leader.PerSecond(r.Limit.Rate)
	}
	return out
}

// entriesToWire returns entries as regions receive them.
func entriesToWire(entries []clusterstate.Entry) []*aliquotv1.Entry {
	out := make([]*aliquotv1.Entry, len(entries))
	for i := range entries {
		e := &entries[i]
		out[i] = &aliquotv1.Entry{
			Kind: string(e.Kind), RuleId: e.Rule, Name: e.Name, Capacity: e.Capacity, Limit: e.Limit, RefillRate: e.RefillRate, WindowMicros: e.Window.Microseconds(),
			UntilUnixMs: e.UntilMS, Reason: e.Reason, Author: e.By, UnixMs: e.UnixMS, Revision: e.Revision,
		}
	}
	return out
}

// entriesShown returns entries as the API shows them: with the rules that they hold for.
func entriesShown(book *clusterstate.RuleBook) []*aliquotv1.Entry {
	out := entriesToWire(book.Entries)
	for i := range out {
		out[i].RuleIds, out[i].WithoutEffect = book.Set.Effect(&book.Entries[i].Entry)
	}
	return out
}

func entryChangeToWire(c *clusterstate.EntryChange) *aliquotv1.EntryChange {
	return &aliquotv1.EntryChange{
		Revision: c.Revision, Version: c.Version, Author: c.Author, Comment: c.Comment, UnixMs: c.UnixMS,
		Put: entriesToWire(c.Put), Removed: entriesToWire(c.Removed), Puts: c.Puts, Removals: c.Removals,
	}
}

// hiddenChanges returns a warning for each entry that holds above something that a file changes.
func hiddenChanges(book *clusterstate.RuleBook, file *rules.Set) []string {
	return rules.Hides(rulesEntries(book.Entries), book.Set, file)
}

func rulesEntries(entries []clusterstate.Entry) []rules.Entry {
	out := make([]rules.Entry, len(entries))
	for i := range entries {
		out[i] = entries[i].Entry
	}
	return out
}
