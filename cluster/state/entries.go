package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

// Bounds of the history of entry changes.
const (
	maxEntryChanges     = 1000
	maxEntryChangeBytes = 4 << 20
	// maxEntriesNamed is the number of entries, of each kind, that are kept with a change.
	maxEntriesNamed = 20
)

// Entry is one block, allow, override or tier value that a command has set and that overrides the rules file. It is
// immutable.
type Entry struct {
	rules.Entry
	// UnixMS is the proposing leader's time, for display.
	UnixMS int64
	// Revision is the revision of the entries that set it.
	Revision uint64
}

// EntryChange is one revision of the entries. It is immutable.
type EntryChange struct {
	Revision uint64
	// Version is the version of the rules that the change made.
	Version uint64
	Author  string
	Comment string
	// UnixMS is the proposing leader's time, for display.
	UnixMS int64
	// Put and Removed are the first entries that were set and removed; Puts and Removals count all of them.
	Put, Removed   []Entry
	Puts, Removals uint32
}

// size returns the bytes that the change counts towards maxEntryChangeBytes.
func (c *EntryChange) size() int {
	out := len(c.Author) + len(c.Comment)
	for _, entries := range [][]Entry{c.Put, c.Removed} {
		for i := range entries {
			out += entries[i].Size()
		}
	}
	return out
}

// NextEnd returns the earliest end of an entry in Unix milliseconds; 0 if no entry ends.
func (b *RuleBook) NextEnd() int64 {
	next := int64(0)
	for i := range b.Entries {
		if until := b.Entries[i].UntilMS; until != 0 && (next == 0 || until < next) {
			next = until
		}
	}
	return next
}

// changeEntries makes a version of the rules with other entries, and another version of the staged rules. The texts
// stay as they are.
func (s *State) changeEntries(c *raftlogv1.ChangeEntries) (version uint64, changed bool, err error) {
	b := s.Rules
	switch {
	case b.Version == 0:
		return 0, false, fmt.Errorf("%w: no rules are in force; apply a file first", ErrNothingInForce)
	case c.GetHasExpected() && c.GetExpectedVersion() != b.Version:
		return 0, false, ErrVersionConflict{Expected: c.GetExpectedVersion(), InForce: b.Version}
	}
	e := newEntryEdit(&b, c.GetAuthor(), c.GetComment(), c.GetUnixMs())
	if c.GetReplace() {
		clear(e.next)
	}
	for _, m := range c.GetRemove() {
		if err := e.remove(rules.EntryOf(m).EntryID); err != nil {
			return 0, false, err
		}
	}
	for _, m := range c.GetPut() {
		if err := e.put(rules.EntryOf(m), c.GetWithoutEffect()); err != nil {
			return 0, false, err
		}
	}
	return s.bringIntoForce(e)
}

// changeTier applies the command that changed one tier value before ChangeEntries existed.
func (s *State) changeTier(c *raftlogv1.ChangeTier) (version uint64, changed bool, err error) {
	v := c.GetValue()
	m := []*raftlogv1.Entry{{
		Kind: string(rules.TierEntry), Name: v.GetTier(), Capacity: v.GetCapacity(), Limit: v.GetLimit(), RefillRate: v.GetRefillRate(), WindowMicros: v.GetWindowMicros(),
	}}
	all := &raftlogv1.ChangeEntries{
		Author: c.GetAuthor(), Comment: c.GetComment(), UnixMs: c.GetUnixMs(), HasExpected: c.GetHasExpected(), ExpectedVersion: c.GetExpectedVersion(),
	}
	if all.Put = m; c.GetRemove() {
		all.Put, all.Remove = nil, m
	}
	return s.changeEntries(all)
}

// endEntries removes the entries whose end has come. It changes nothing if there are none.
func (s *State) endEntries(c *raftlogv1.EndEntries) (version uint64, changed bool, err error) {
	b := s.Rules
	e := newEntryEdit(&b, "coordinator", "its time is over", c.GetUnixMs())
	maps.DeleteFunc(e.next, func(_ rules.EntryID, one Entry) bool { return one.UntilMS != 0 && one.UntilMS <= c.GetUnixMs() })
	return s.bringIntoForce(e)
}

// bringIntoForce brings the entries of an edit into force. An edit that changes nothing makes no version.
func (s *State) bringIntoForce(e *entryEdit) (version uint64, changed bool, err error) {
	change := e.change()
	if change == nil {
		return s.Rules.Version, false, nil
	}
	entries := slices.SortedFunc(maps.Values(e.next), func(a, b Entry) int { return a.Compare(b.EntryID) })
	if err := checkBounds(entries); err != nil {
		return 0, false, err
	}
	s.setRules(s.Rules.withEntries(entries, change))
	return s.Rules.Version, true, nil
}

func checkBounds(entries []Entry) error {
	bytes := 0
	for i := range entries {
		bytes += entries[i].Size()
	}
	if len(entries) > rules.MaxEntries || bytes > rules.MaxEntryBytes {
		return fmt.Errorf("%w: these would be %d entries of %d bytes above the file, at most %d of %d bytes; remove some, or write them into the file",
			ErrInvalidArgument, len(entries), bytes, rules.MaxEntries, rules.MaxEntryBytes)
	}
	return nil
}

// entryEdit is a change of entries in progress.
type entryEdit struct {
	book *RuleBook
	// was are the entries before, next those after.
	was, next map[rules.EntryID]Entry
	author    string
	comment   string
	unixMS    int64
}

func newEntryEdit(b *RuleBook, author, comment string, unixMS int64) *entryEdit {
	e := &entryEdit{book: b, next: make(map[rules.EntryID]Entry, len(b.Entries)), author: author, comment: comment, unixMS: unixMS}
	for _, one := range b.Entries {
		e.next[one.EntryID] = one
	}
	e.was = maps.Clone(e.next)
	return e
}

// remove removes an entry; one without a kind means the block and the allow of its pattern.
func (e *entryEdit) remove(id rules.EntryID) error {
	ids := []rules.EntryID{id}
	if id.Kind == "" {
		ids = []rules.EntryID{{Kind: rules.BlockEntry, Name: id.Name}, {Kind: rules.AllowEntry, Name: id.Name}}
	}
	found := false
	for _, id := range ids {
		_, is := e.next[id]
		found = found || is
		delete(e.next, id)
	}
	if found {
		return nil
	}
	why := "there is no entry " + id.String()
	switch id.Kind {
	case "":
		why = fmt.Sprintf("no entry blocks or allows %q", shortName(id.Name))
	case rules.TierEntry:
		why = fmt.Sprintf("the tier %q has no value", shortName(id.Name))
	}
	return fmt.Errorf("%w: %s above the file; see `aliquot entries list`", rules.ErrNotThere, why)
}

// put sets an entry. A block replaces the allow of the same pattern, and the other way round.
func (e *entryEdit) put(one rules.Entry, withoutEffect bool) error {
	one.By = cmp.Or(one.By, e.author)
	if one.Reason == "" && one.Kind == rules.TierEntry {
		one.Reason = e.comment
	}
	if err := e.check(&one, withoutEffect); err != nil {
		return err
	}
	switch one.Kind { // of a block and an allow the later one counts
	case rules.BlockEntry:
		delete(e.next, rules.EntryID{Kind: rules.AllowEntry, Name: one.Name})
	case rules.AllowEntry:
		delete(e.next, rules.EntryID{Kind: rules.BlockEntry, Name: one.Name})
	}
	if before, is := e.was[one.EntryID]; is && before.Entry == one {
		e.next[one.EntryID] = before
		return nil
	}
	e.next[one.EntryID] = Entry{Entry: one, UnixMS: e.unixMS, Revision: e.book.EntriesRevision + 1}
	return nil
}

// check accepts an entry that has an effect under the rules in force or under the staged rules.
func (e *entryEdit) check(one *rules.Entry, withoutEffect bool) error {
	if one.UntilMS != 0 && one.UntilMS <= e.unixMS {
		return fmt.Errorf("%w: %v would end before now", rules.ErrBadEdit, one.EntryID)
	}
	if withoutEffect {
		return one.Check()
	}
	err := e.book.Set.CheckEntry(one)
	if r := e.book.Rollout; err != nil && r.UnderWay() && r.Set.CheckEntry(one) == nil {
		return nil
	}
	return err
}

// change returns the difference that the edit makes, or nil if there is none.
func (e *entryEdit) change() *EntryChange {
	out := &EntryChange{Revision: e.book.EntriesRevision + 1, Author: e.author, Comment: e.comment, UnixMS: e.unixMS}
	note := func(one Entry, to *[]Entry, count *uint32) {
		if *count++; len(*to) < maxEntriesNamed {
			*to = append(*to, one)
		}
	}
	for _, one := range e.book.Entries {
		if _, stays := e.next[one.EntryID]; !stays {
			note(one, &out.Removed, &out.Removals)
		}
	}
	var put []Entry
	for _, one := range e.next {
		if one.Revision == out.Revision {
			put = append(put, one)
		}
	}
	slices.SortFunc(put, func(a, b Entry) int { return a.Compare(b.EntryID) })
	for _, one := range put {
		note(one, &out.Put, &out.Puts)
	}
	if out.Puts+out.Removals == 0 {
		return nil
	}
	return out
}

// withEntries returns the book with other entries: a new version of the text in force and, during a roll-out, a new
// version of the staged text with a higher number.
func (b RuleBook) withEntries(entries []Entry, change *EntryChange) RuleBook {
	b.Last++
	above := entriesAbove(entries)
	set := b.Set.With(above)
	b.supersede(OlderRules{Version: b.Version, Set: b.Set}, set)
	b.Version, b.Entries, b.EntriesRevision, b.Set = b.Last, entries, change.Revision, set
	if b.Rollout.UnderWay() {
		r := *b.Rollout
		b.Last++
		set := r.Set.With(above)
		b.supersede(OlderRules{r.Version, r.Set, r.Regions}, set)
		r.Base, r.Version, r.Set = b.Version, b.Last, set
		b.Rollout = &r
	}
	change.Version = b.Version
	b.EntryChanges = keptChanges(b.EntryChanges, *change)
	return b.indexed()
}

// keptChanges returns the changes of entries with one more, without the oldest ones that exceed the bounds.
func keptChanges(changes []EntryChange, one EntryChange) []EntryChange {
	out := append(slices.Clone(changes), one)
	total, first := 0, len(out)
	for first > 0 && len(out)-first < maxEntryChanges {
		if total += out[first-1].size(); total > maxEntryChangeBytes && first < len(out) {
			break
		}
		first--
	}
	return out[first:]
}

func entriesAbove(entries []Entry) []rules.Entry {
	out := make([]rules.Entry, len(entries))
	for i := range entries {
		out[i] = entries[i].Entry
	}
	return out
}

// EncodeEntry returns an entry as the log has it.
func EncodeEntry(e Entry) *raftlogv1.Entry {
	return &raftlogv1.Entry{
		Kind: string(e.Kind), RuleId: e.Rule, Name: e.Name,
		Capacity: e.Capacity, Limit: e.Limit, RefillRate: e.RefillRate, WindowMicros: e.Window.Microseconds(),
		UntilUnixMs: e.UntilMS, Reason: e.Reason, Author: e.By, UnixMs: e.UnixMS, Revision: e.Revision,
	}
}

func encodeEntries(entries []Entry) []*raftlogv1.Entry {
	out := make([]*raftlogv1.Entry, len(entries))
	for i := range entries {
		out[i] = EncodeEntry(entries[i])
	}
	return out
}

func encodeChanges(changes []EntryChange) []*raftlogv1.EntryChange {
	out := make([]*raftlogv1.EntryChange, len(changes))
	for i, c := range changes {
		out[i] = &raftlogv1.EntryChange{
			Revision: c.Revision, Version: c.Version, Author: c.Author, Comment: c.Comment, UnixMs: c.UnixMS,
			Put: encodeEntries(c.Put), Removed: encodeEntries(c.Removed), Puts: c.Puts, Removals: c.Removals,
		}
	}
	return out
}

func decodeChanges(in []*raftlogv1.EntryChange) []EntryChange {
	out := make([]EntryChange, len(in))
	for i, m := range in {
		out[i] = EntryChange{
			Revision: m.GetRevision(), Version: m.GetVersion(), Author: m.GetAuthor(), Comment: m.GetComment(), UnixMS: m.GetUnixMs(),
			Put: decodeAbove(m.GetPut()), Removed: decodeAbove(m.GetRemoved()), Puts: m.GetPuts(), Removals: m.GetRemovals(),
		}
	}
	return out
}

// decodeAbove returns nil for no entries.
func decodeAbove(in []*raftlogv1.Entry) (out []Entry) {
	for _, e := range in {
		out = append(out, Entry{Entry: rules.EntryOf(e), UnixMS: e.GetUnixMs(), Revision: e.GetRevision()})
	}
	return out
}

// decodeEntries reads the entries of a snapshot, or the tier values of a snapshot of an earlier version. It refuses
// invalid entries and entries that are out of order.
func decodeEntries(m *raftlogv1.Snapshot) ([]Entry, error) {
	out := decodeAbove(m.GetAbove())
	for _, v := range m.GetTierValues() {
		one := Entry{UnixMS: v.GetUnixMs(), Revision: 1}
		one.EntryID = rules.EntryID{Kind: rules.TierEntry, Name: v.GetTier()}
		one.ParamsText = rules.ParamsText{
			Capacity: v.GetCapacity(), Limit: v.GetLimit(), RefillRate: v.GetRefillRate(), Window: time.Duration(v.GetWindowMicros()) * time.Microsecond,
		}
		one.Reason, one.By = v.GetComment(), v.GetAuthor()
		out = append(out, one)
	}
	for i := range out {
		if err := out[i].Check(); err != nil {
			return nil, err
		}
		if i > 0 && out[i].Compare(out[i-1].EntryID) <= 0 {
			return nil, fmt.Errorf("the entry %v is out of order", out[i].EntryID)
		}
	}
	return out, checkBounds(out)
}
