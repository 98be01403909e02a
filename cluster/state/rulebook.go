package state

import (
	"fmt"
	"slices"
	"sync"

	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

// RuleBook is the rules of a cluster: the version in force, a version that is being rolled out, and earlier ones.
// Version 0 means that there are no rules yet; Set is nil then. Maps and slices are replaced and never changed in
// place, so that a copy of the book stays valid.
type RuleBook struct {
	Version uint64
	YAML    string
	Author  string
	Comment string
	// UnixMS is the proposing leader's time, for display.
	UnixMS int64
	Set    *rules.Set
	// Numbers maps each rule id to its number; a number is never used twice.
	Numbers    map[string]uint32
	NextNumber uint32
	// Last is the highest number of any version: above Version while a later version is staged.
	Last uint64
	// History is every version that is kept, oldest first; see keptVersions.
	History []RuleVersion
	// Applied is the version that brought the text into force. Versions above it changed only entries.
	Applied uint64
	// Entries are the entries that commands have set, sorted by id. They override the text, in Set and in the
	// staged set.
	Entries []Entry
	// EntriesRevision counts the changes of entries; EntryChanges are the latest of them, oldest first.
	EntriesRevision uint64
	EntryChanges    []EntryChange
	// Rollout is the roll-out under way or, until the next change, the last one; nil if there was none.
	Rollout *Rollout
	// Older are other versions that regions may still use, latest last, as far as this process has seen them: a
	// region that is cut off goes on with its version. No snapshot has them and no command depends on them.
	Older []OlderRules
	// Forgotten is the highest version whose limits are not known here although a region may still use them; 0:
	// none. Like Older it is what this process has seen.
	Forgotten uint64
	// inForce are the numbers of the rules in force and staged; see indexed.
	inForce map[uint32]struct{}
}

// OlderRules is a version of the rules that was in force or staged.
type OlderRules struct {
	Version uint64
	Set     *rules.Set
	// Regions are those in which it was staged; nil if it was in force everywhere.
	Regions []string
}

// maxOlder is the number of older versions that are kept: rules of 4 MiB take tens of megabytes when parsed.
const maxOlder = 4

// supersede adds a version to Older, unless next, which follows it, has the same limits. Of more than maxOlder it
// forgets the oldest.
func (b *RuleBook) supersede(one OlderRules, next *rules.Set) {
	if one.Set == nil || rules.SameLimits(one.Set, next) {
		return
	}
	b.Older = append(slices.Clone(b.Older), one)
	if len(b.Older) > maxOlder {
		b.Forgotten = max(b.Forgotten, b.Older[0].Version)
		b.Older = b.Older[1:]
	}
}

// Others returns all versions that regions may use, except for the one in force: Older and the staged version.
func (b *RuleBook) Others() []OlderRules {
	if !b.Rollout.UnderWay() {
		return b.Older
	}
	staged := OlderRules{b.Rollout.Version, b.Rollout.Set, b.Rollout.Regions}
	return append(slices.Clone(b.Older), staged)
}

// InForce reports whether a rule in force or staged has this number.
func (b *RuleBook) InForce(number uint32) bool {
	_, ok := b.inForce[number]
	return ok
}

// indexed returns the book with the index of InForce. Every plan calls InForce, and there may be thousands of
// rules.
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

// RulesFor is the version of the rules that a region uses.
type RulesFor struct {
	Version uint64
	YAML    string
	// Numbers and Entries must not be changed.
	Numbers map[string]uint32
	Entries []Entry
}

// For returns the rules that a region uses: the staged version in the regions of the roll-out, and the one in force
// in all others.
func (b *RuleBook) For(region string) RulesFor {
	if b.Rollout.StagedIn(region) {
		return RulesFor{b.Rollout.Version, b.Rollout.YAML, b.Rollout.Numbers, b.Entries}
	}
	return RulesFor{b.Version, b.YAML, b.Numbers, b.Entries}
}

// next returns the book with the given rules in force, or the errors in their file.
func (b RuleBook) next(a *raftlogv1.ApplyRules, parser *ruleParser) (RuleBook, error) {
	set, _, err := parser.parse(a.GetFileName(), a.GetYaml())
	if err != nil {
		return RuleBook{}, err
	}
	version := newRuleVersion(b.Last+1, b.Applied, a)
	set = set.With(entriesAbove(b.Entries))
	next := RuleBook{
		Entries: b.Entries, EntriesRevision: b.EntriesRevision, EntryChanges: b.EntryChanges,
		Older: b.Older, Forgotten: b.Forgotten, History: keptVersions(b.History, version),
	}
	next.supersede(OlderRules{Version: b.Version, Set: b.Set}, set)
	next.Numbers, next.NextNumber = rules.Assign(b.Numbers, b.Set, b.NextNumber, set)
	next.Version, next.Applied, next.Last, next.Set, next.YAML = version.Version, version.Version, version.Version, set, a.GetYaml()
	next.Author, next.Comment, next.UnixMS = version.Author, version.Comment, version.UnixMS
	return next.indexed(), nil
}

func (s *State) applyRules(a *raftlogv1.ApplyRules, parser *ruleParser) (version uint64, err error) {
	if err := s.checkRulesChange(a); err != nil {
		return 0, err
	}
	book, err := s.Rules.next(a, parser)
	if err != nil {
		return 0, err
	}
	s.setRules(book)
	return book.Version, nil
}

// checkRulesChange refuses a change that was made against another version, and any change during a roll-out: the
// version that the roll-out is compared with must not change.
func (s *State) checkRulesChange(a *raftlogv1.ApplyRules) error {
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

// setRules replaces the book and drops the keys of rules that are gone.
func (s *State) setRules(book RuleBook) {
	s.Rules = book
	s.Ledger.DropRules(book.InForce)
}

// ruleParser parses rules and remembers the last result. A file of ten thousand rules takes long to parse: it is
// parsed once when it is proposed, not again when it is applied, and never while the state is locked. It is safe
// for concurrent use. The zero value is ready to use.
type ruleParser struct {
	mu   sync.Mutex
	last parsed
	// ahead is locked while proposed rules are parsed: a parsed text takes a hundred times its size.
	ahead sync.Mutex
}

// parsed is a result. It is immutable.
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

// readAhead parses the rules of a command before the state is locked for it.
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
