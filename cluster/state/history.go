package state

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"

	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

// Bounds of the versions that are kept. They count texts before compression, so that every node drops the same
// versions.
const (
	// maxVersions is enough for years of daily changes.
	maxVersions = 1000
	// maxHistoryBytes is sixteen files of the largest size, or maxVersions files of 60 KB.
	maxHistoryBytes = 64 << 20
	// minPacked is the size of the smallest text that is compressed.
	minPacked = 1 << 10
)

// RuleVersion is one version of the rules as it was applied. It is immutable.
type RuleVersion struct {
	Version uint64
	Author  string
	Comment string
	// UnixMS is the proposing leader's time, for display.
	UnixMS int64
	// Base is the version that was in force before; 0 if none was.
	Base uint64
	// RollbackTo is the version whose text this version restored; 0 if it restored none.
	RollbackTo uint64

	text   []byte
	packed bool // by gzip
	size   int  // of the text
}

func newRuleVersion(version, base uint64, a *raftlogv1.ApplyRules) RuleVersion {
	v := RuleVersion{
		Version: version, Base: base, RollbackTo: a.GetRollbackTo(),
		Author: a.GetAuthor(), Comment: a.GetComment(), UnixMS: a.GetUnixMs(),
	}
	v.setText(a.GetYaml())
	return v
}

// setText stores a text, compressed if that makes it smaller.
func (v *RuleVersion) setText(yaml string) {
	v.text, v.size = []byte(yaml), len(yaml)
	if len(yaml) < minPacked {
		return
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err == nil {
		_, err = io.WriteString(w, yaml)
		err = errors.Join(err, w.Close())
	}
	if err == nil && packed.Len() < len(yaml) { // memory never fails to be written
		v.text, v.packed = slices.Clone(packed.Bytes()), true
	}
}

// Text returns the rules file as it was applied. An error means that the stored text is damaged.
func (v *RuleVersion) Text() (string, error) {
	if !v.packed {
		return string(v.text), nil
	}
	r, err := gzip.NewReader(bytes.NewReader(v.text))
	if err != nil {
		return "", fmt.Errorf("cluster: the text of rules version %d: %w", v.Version, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, rules.MaxFileBytes+1))
	if err == nil && len(text) != v.size {
		err = fmt.Errorf("%d bytes, not %d", len(text), v.size)
	}
	if err != nil {
		return "", fmt.Errorf("cluster: the text of rules version %d: %w", v.Version, err)
	}
	return string(text), nil
}

// cost returns the bytes that a version counts towards maxHistoryBytes.
func (v *RuleVersion) cost() int { return v.size + len(v.Author) + len(v.Comment) }

// keptVersions returns a history with one more version, without the oldest ones that exceed the bounds. It always
// keeps the version before the new one, which may still be in force.
func keptVersions(history []RuleVersion, one RuleVersion) []RuleVersion {
	total, first := one.cost(), len(history)
	for first > 0 && len(history)-first+1 < maxVersions {
		total += history[first-1].cost()
		if total > maxHistoryBytes && first < len(history) {
			break
		}
		first--
	}
	if first > 0 {
		history = slices.Clone(history[first:])
	}
	return append(history, one)
}

// Kept returns a version of a history, and false if the history does not have it (any more).
func Kept(history []RuleVersion, version uint64) (RuleVersion, bool) {
	i, found := slices.BinarySearchFunc(history, version, func(v RuleVersion, version uint64) int {
		return cmp.Compare(v.Version, version)
	})
	if !found {
		return RuleVersion{}, false
	}
	return history[i], true
}

func encodeHistory(history []RuleVersion) []*raftlogv1.RuleVersion {
	out := make([]*raftlogv1.RuleVersion, len(history))
	for i, v := range history {
		out[i] = &raftlogv1.RuleVersion{
			Version: v.Version, Author: v.Author, Comment: v.Comment, UnixMs: v.UnixMS,
			Base: v.Base, RollbackTo: v.RollbackTo, Size: uint32(v.size),
		}
		if v.packed {
			out[i].YamlGzip = v.text
		} else {
			out[i].Yaml = string(v.text)
		}
	}
	return out
}

// decodeHistory refuses versions that are not in ascending order: Kept searches them by number.
func decodeHistory(in []*raftlogv1.RuleVersion) ([]RuleVersion, error) {
	out := make([]RuleVersion, len(in))
	for i, m := range in {
		v := RuleVersion{
			Version: m.GetVersion(), Author: m.GetAuthor(), Comment: m.GetComment(), UnixMS: m.GetUnixMs(),
			Base: m.GetBase(), RollbackTo: m.GetRollbackTo(), size: int(m.GetSize()),
		}
		v.text, v.packed = []byte(m.GetYaml()), len(m.GetYamlGzip()) > 0
		if v.packed {
			v.text = m.GetYamlGzip()
		}
		if v.Version == 0 || i > 0 && v.Version <= out[i-1].Version {
			return nil, fmt.Errorf("rules version %d is out of order", v.Version)
		}
		out[i] = v
	}
	return out, nil
}
