package state

import (
	"fmt"
	"slices"
	"sync"

	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

// RuleBook is the rules of a cluster: the version in force, a version that is being
// rolled out, and those that came before. Version 0 means that none came yet, and Set
// is nil then. Maps and slices are replaced, never changed in place: a copy of the
// book stays as it is.
type RuleBook struct {
	Version uint64
	YAML    string
	Author  string
	Comment string
	// UnixMS is the proposing leader's time, for display.
	UnixMS int64
	Set    *rules.Set
	// Numbers names each rule id's number; a number is never used twice.
	Numbers    map[string]uint32
	NextNumber uint32
	// Last is the highest number that a version has: above Version while a later one is
	// staged.
	Last uint64
	// History is every version that is kept, the oldest first; see keptVersions.
	History []RuleVersion
	// Applied is the version that brought the text into force: those above it changed entries
	// only.
	Applied uint64
	// Entries are what was set above the text, sorted by id. Set and the set of what is staged
	// are under them.
	Entries []Entry
	// EntriesRevision counts the changes of entries; EntryChanges are the latest of them, the
	// oldest first.
	EntriesRevision uint64
	EntryChanges    []EntryChange
	// Rollout is the staged roll-out under way or, until the next change, the last one;
	// nil if there was none.
	Rollout *Rollout
	// Older are other versions that regions may go by, the latest last, as far as this
	// process has seen them: a region that is cut off goes on with what it has. Soft: no
	// snapshot has them and no command depends on them.
	Older []OlderRules
	// inForce are the numbers of the rules in force and staged; see indexed.
	inForce map[uint32]struct{}
}

// OlderRules is a version of the rules that was in force, or staged.
type OlderRules struct {
	Version uint64
	Set     *rules.Set
	// Regions are those it was staged in; nil if it was in force everywhere.
	Regions []string
}

// olderKept is how many of them are kept: rules of 4 MiB are tens of megabytes parsed.
const olderKept = 4

// older are the other versions once the given one is among them.
func (b *RuleBook) older(one OlderRules) []OlderRules {
	if one.Set == nil {
		return b.Older
	}
	out := append(slices.Clone(b.Older), one)
	return out[max(0, len(out)-olderKept):]
}

// Others are all versions but the one in force that regions may go by: Older, and the
// staged one.
func (b *RuleBook) Others() []OlderRules {
	if !b.Rollout.UnderWay() {
		return b.Older
	}
	staged := OlderRules{b.Rollout.Version, b.Rollout.Set, b.Rollout.Regions}
	return append(slices.Clone(b.Older), staged)
}

// InForce reports whether a rule has this number now, in force or staged.
func (b *RuleBook) InForce(number uint32) bool {
	_, ok := b.inForce[number]
	return ok
}

// indexed is the book with InForce answering from its numbers: every plan asks, and
// there may be thousands of rules.
func (b RuleBook) indexed() RuleBook {
	b.inForce = make(map[uint32]struct{}, len(b.Numbers))
	for _, number := range b.Numbers {
		b.inForce[number] = struct{}{}
	}
	if b.Rollout.UnderWay() {
		for _, number := range b.Rollout.Numbers {
			b.inForce[number] = struct{}{}
		}
	}
	return b
}

// RulesFor are the rules that a region is to go by.
type RulesFor struct {
	Version uint64
	YAML    string
	// Numbers and Entries must not be changed.
	Numbers map[string]uint32
	Entries []Entry
}

// For is what a region is to go by: the staged version where it is staged, else the
// one in force.
func (b *RuleBook) For(region string) RulesFor {
	if b.Rollout.StagedIn(region) {
		return RulesFor{b.Rollout.Version, b.Rollout.YAML, b.Rollout.Numbers, b.Entries}
	}
	return RulesFor{b.Version, b.YAML, b.Numbers, b.Entries}
}

// next is the book after the given rules, or the file's problems.
func (b RuleBook) next(a *raftlogv1.ApplyRules, parser *ruleParser) (RuleBook, error) {
	set, _, err := parser.parse(a.GetFileName(), a.GetYaml())
	if err != nil {
		return RuleBook{}, err
	}
	version := newRuleVersion(b.Last+1, b.Applied, a)
	set = set.With(entriesAbove(b.Entries))
	next := RuleBook{
		Entries: b.Entries, EntriesRevision: b.EntriesRevision, EntryChanges: b.EntryChanges,
		Older: b.older(OlderRules{Version: b.Version, Set: b.Set}), History: keptVersions(b.History, version),
	}
	next.Numbers, next.NextNumber = rules.Assign(b.Numbers, b.Set, b.NextNumber, set)
	next.Version, next.Applied, next.Last, next.Set, next.YAML = version.Version, version.Version, version.Version, set, a.GetYaml()
	next.Author, next.Comment, next.UnixMS = version.Author, version.Comment, version.UnixMS
	return next.indexed(), nil
}

func (s *State) applyRules(a *raftlogv1.ApplyRules, parser *ruleParser) (version uint64, err error) {
	if err := s.mayChangeRules(a); err != nil {
		return 0, err
	}
	book, err := s.Rules.next(a, parser)
	if err != nil {
		return 0, err
	}
	s.setRules(book)
	return book.Version, nil
}

// mayChangeRules refuses a change made against another file, and any change while
// a version is being rolled out: what it is compared with must not move.
func (s *State) mayChangeRules(a *raftlogv1.ApplyRules) error {
	if s.ClusterID == "" {
		return fmt.Errorf("%w: rules before the bootstrap", ErrInvalidArgument)
	}
	if expected := a.GetExpectedVersion(); a.GetHasExpected() && (expected < s.Rules.Applied || expected > s.Rules.Version) {
		return ErrVersionConflict{Expected: a.GetExpectedVersion(), InForce: s.Rules.Version}
	}
	if r := s.Rules.Rollout; r.UnderWay() {
		return fmt.Errorf("%w: version %d is staged; promote or abort it first", ErrRolloutUnderWay, r.Version)
	}
	return nil
}

// setRules makes a book the one in force, without the keys of rules that went away.
func (s *State) setRules(book RuleBook) {
	s.Rules = book
	s.Ledger.DropRules(book.InForce)
}

// ruleParser parses rules and remembers the last outcome. Parsing is a pure function, so
// that remembering it changes nothing, but a file of ten thousand rules takes long: it
// is read once where it is proposed, not again where it is applied, and never while the
// state is locked. Safe for concurrent use; the zero value is ready.
type ruleParser struct {
	mu   sync.Mutex
	last parsed
	// ahead is held while proposed rules are read: each text takes a hundred times its size.
	ahead sync.Mutex
}

// parsed is an outcome; neither part of it is ever changed.
type parsed struct {
	file, yaml string
	set        *rules.Set
	warnings   []rules.Warning
	err        error
}

func (p *ruleParser) parse(file, yaml string) (*rules.Set, []rules.Warning, error) {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	if known := last.set != nil || last.err != nil; !known || last.file != file || last.yaml != yaml {
		last = parsed{file: file, yaml: yaml}
		last.set, last.warnings, last.err = rules.Parse(file, []byte(yaml))
		p.mu.Lock()
		p.last = last
		p.mu.Unlock()
	}
	return last.set, last.warnings, last.err
}

// readAhead parses what a command brings, before the state is locked for it.
func (p *ruleParser) readAhead(cmd *raftlogv1.Command) {
	a := cmd.GetApplyRules()
	if staged := cmd.GetStageRules(); staged != nil {
		a = staged.GetRules()
	}
	if a != nil {
		p.ahead.Lock()
		defer p.ahead.Unlock()
		_, _, _ = p.parse(a.GetFileName(), a.GetYaml()) // the outcome is asked for again
	}
}
