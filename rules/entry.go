package rules

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"aliquot/rules/document"
	"aliquot/rules/pattern"
	"aliquot/rules/source"
)

// ErrNotThere means that a change of entries names something that the rules, or the entries, do not
// have.
var ErrNotThere = errors.New("not in the rules")

// ErrBadEdit means that an entry makes no sense under any rules.
var ErrBadEdit = errors.New("cannot be set above the rules")

const (
	// MaxEntries caps the entries above a file, of all kinds together.
	MaxEntries = 10_000
	// MaxEntryBytes caps the sum of their Entry.Size.
	MaxEntryBytes = 1 << 20
)

// EntryKind is the effect of an entry above the file. The zero value is no kind.
type EntryKind string

// The kinds of entries. Blocks have precedence over allows, and both over the file's lists. An
// override has precedence over the overrides of the file, and the value of a tier over the numbers
// of the tier's rules.
const (
	BlockEntry    EntryKind = "block"
	AllowEntry    EntryKind = "allow"
	OverrideEntry EntryKind = "override"
	TierEntry     EntryKind = "tier"
)

// EntryID names an entry above the file. Each id has at most one entry.
type EntryID struct {
	Kind EntryKind `json:"kind"`
	// Rule is the id of the rule of an override; empty for the other kinds.
	Rule string `json:"rule,omitempty"`
	// Name is the pattern for API keys, or the name of a tier.
	Name string `json:"name"`
}

// Compare orders ids by kind, then by rule, then by name.
func (id EntryID) Compare(other EntryID) int {
	return cmp.Or(cmp.Compare(id.Kind, other.Kind), cmp.Compare(id.Rule, other.Rule), cmp.Compare(id.Name, other.Name))
}

// String returns the id in the form that commands take, such as `override per-key "sk_1"`.
func (id EntryID) String() string {
	if id.Rule != "" {
		return fmt.Sprintf("%s %s %q", id.Kind, source.Shorten(id.Rule), source.Shorten(id.Name))
	}
	return fmt.Sprintf("%s %q", id.Kind, source.Shorten(id.Name))
}

// Entry is a setting that an operator made above the rules file. It applies until it is removed.
// UntilMS says when a command should remove it; no daemon ends it by its own clock.
type Entry struct {
	EntryID
	// ParamsText are the numbers of an override or a tier; zero for other kinds.
	ParamsText
	Note
}

// Value returns the numbers that the entry sets, for people; "" for a block and an allow.
func (e *Entry) Value() string { return e.ParamsText.String() }

// Size returns the bytes that the entry counts towards MaxEntryBytes: its texts and its numbers.
func (e *Entry) Size() int {
	const numbers = 64
	return numbers + len(e.Rule) + len(e.Name) + len(e.RefillRate) + len(e.Reason) + len(e.By)
}

// EntryMessage is an entry in a message.
type EntryMessage interface {
	GetKind() string
	GetRuleId() string
	GetName() string
	GetCapacity() int64
	GetLimit() int64
	GetRefillRate() string
	GetWindowMicros() int64
	GetUntilUnixMs() int64
	GetReason() string
	GetAuthor() string
}

// EntryOf returns the entry of a message, without checks.
func EntryOf(m EntryMessage) Entry {
	return Entry{
		EntryID: EntryID{Kind: EntryKind(m.GetKind()), Rule: m.GetRuleId(), Name: m.GetName()},
		ParamsText: ParamsText{
			Capacity: m.GetCapacity(), Limit: m.GetLimit(), RefillRate: m.GetRefillRate(),
			Window: time.Duration(m.GetWindowMicros()) * time.Microsecond,
		},
		Note: Note{UntilMS: m.GetUntilUnixMs(), Reason: m.GetReason(), By: m.GetAuthor()},
	}
}

// EntriesOf returns the entries of messages, without checks.
func EntriesOf[M EntryMessage](messages []M) []Entry {
	out := make([]Entry, len(messages))
	for i, m := range messages {
		out[i] = EntryOf(m)
	}
	return out
}

// Check returns what is wrong with the entry under any rules, or nil. The error is an ErrBadEdit.
func (e *Entry) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrBadEdit, fmt.Sprintf(format, args...))
	}
	what := "the pattern"
	if e.Kind == TierEntry {
		what = "the tier"
	}
	for _, text := range []struct {
		what, text string
		max        int
	}{{what, e.Name, pattern.MaxChars}, {"the rule", e.Rule, MaxNameChars}, {"the reason", e.Reason, document.MaxReasonChars}, {"the author", e.By, document.MaxReasonChars}} {
		switch {
		case !utf8.ValidString(text.text):
			return bad("%s is not UTF-8", text.what)
		case utf8.RuneCountInString(text.text) > text.max:
			return bad("%s is longer than %d characters; shorten it", text.what, text.max)
		case strings.ContainsFunc(text.text, unicode.IsControl):
			return bad("%s contains a control character; remove it", text.what)
		}
	}
	switch {
	case e.Name == "":
		return bad("%s is empty; write a value", what)
	case e.UntilMS < 0 || e.UntilMS > latestMS:
		return bad("until is out of range; give a time before the year 10000")
	case e.Rule == "" && e.Kind == OverrideEntry:
		return bad("an override is of a rule; say which")
	case e.Rule != "" && e.Kind != OverrideEntry:
		return bad("only an override is of a rule, not a %s", e.Kind)
	}
	switch e.Kind {
	case BlockEntry, AllowEntry:
		if e.ParamsText != (ParamsText{}) {
			return bad("a %s has no limit", e.Kind)
		}
		if e.Kind == BlockEntry && pattern.OfKey(e.Name).AnyKey() {
			return bad("block %q would reject every request; name the API keys to block", source.Shorten(e.Name))
		}
	case OverrideEntry:
		if _, why := e.Read(); why != "" {
			return bad("%s", why)
		}
	case TierEntry:
		if _, why := e.tierParams(); why != "" {
			return bad("%s", why)
		}
	default:
		return bad("%q is not a kind of entry; use block, allow, override or tier", source.Shorten(string(e.Kind)))
	}
	return nil
}

// latestMS is the last instant that RFC 3339 can represent, in the year 9999.
const latestMS = 253_402_300_799_999

// CheckEntry returns what is wrong with an entry under these rules, or nil. The error is
// ErrNotThere if its rule or tier does not exist, and ErrBadEdit if its numbers make no sense
// there.
func (s *Set) CheckEntry(e *Entry) error {
	if e.Kind == TierEntry {
		return s.checkTier(e)
	}
	if err := e.Check(); err != nil {
		return err
	}
	if e.Kind == OverrideEntry {
		r := s.asInFile().Rule(e.Rule)
		if r == nil {
			return fmt.Errorf("%w: %s", ErrNotThere, s.noRule(e.Rule))
		}
		if _, _, why := e.overrideOf(r); why != "" {
			return fmt.Errorf("%w: rule %s: %s", ErrBadEdit, r.ID, why)
		}
	}
	return nil
}

func (s *Set) noRule(id string) string {
	ids := make([]string, len(s.rules))
	for i, r := range s.rules {
		ids[i] = r.ID
	}
	if len(ids) == 0 {
		return fmt.Sprintf("there is no rule %q", source.Shorten(id))
	}
	return fmt.Sprintf("there is no rule %q; %s", source.Shorten(id), source.DidYouMean(id, ids))
}

// Effect returns the ids of the rules whose numbers an entry sets under s, or the reason why the
// entry has no effect. The reason is "" if it has one. A block or an allow always has an effect.
func (s *Set) Effect(e *Entry) (ruleIDs []string, whyNot string) {
	switch e.Kind {
	case OverrideEntry:
		r := s.Rule(e.Rule)
		if r == nil {
			return nil, fmt.Sprintf("there is no rule %q", source.Shorten(e.Rule))
		}
		if _, _, why := e.overrideOf(s.asInFile().Rule(e.Rule)); why != "" {
			return nil, why
		}
		return []string{r.ID}, ""
	case TierEntry:
		for _, r := range s.asInFile().rules {
			if r.Tier != e.Name {
				continue
			}
			if _, why := r.under(e); why != "" {
				whyNot = fmt.Sprintf("rule %s: %s", r.ID, why)
				continue
			}
			ruleIDs = append(ruleIDs, r.ID)
		}
		if len(ruleIDs) > 0 {
			return ruleIDs, ""
		}
		return nil, cmp.Or(whyNot, fmt.Sprintf("no rule has the tier %q", source.Shorten(e.Name)))
	}
	return nil, ""
}
