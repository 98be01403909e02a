package state

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

// A snapshot is a fixed header, then one raftlog.v1.Snapshot:
//
//	bytes 0-7    magic
//	bytes 8-11   format, big endian
//	bytes 12-19  length of the message in bytes, big endian
//	bytes 20-23  CRC-32C of bytes 0-19 and the message, big endian
const (
	snapshotMagic      = "aliquot\x00"
	snapshotFormat     = 2
	snapshotHeaderSize = 24
	// maxSnapshotBody is the size of the largest message that a restore reads: 200,000 hot keys of 64 regions are
	// about 80 MB.
	maxSnapshotBody = 512 << 20
	// MaxSnapshotBytes is the size of the largest snapshot with its header.
	MaxSnapshotBytes = snapshotHeaderSize + maxSnapshotBody
)

// WriteSnapshot writes a state, the same bytes for the same state.
func WriteSnapshot(w io.Writer, s *State) error {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(encodeState(s))
	if err != nil {
		return fmt.Errorf("cluster: encode snapshot: %w", err)
	}
	if len(body) > maxSnapshotBody {
		return fmt.Errorf("cluster: a snapshot of %d bytes, at most %d", len(body), maxSnapshotBody)
	}
	header := snapshotHeader(body)
	if _, err := w.Write(header[:]); err != nil {
		return fmt.Errorf("cluster: write snapshot: %w", err)
	}
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("cluster: write snapshot: %w", err)
	}
	return nil
}

func snapshotHeader(body []byte) (h [snapshotHeaderSize]byte) {
	copy(h[:], snapshotMagic)
	binary.BigEndian.PutUint32(h[8:], snapshotFormat)
	binary.BigEndian.PutUint64(h[12:], uint64(len(body)))
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.BigEndian.PutUint32(h[20:], crc32.Update(crc32.Checksum(h[:20], table), table, body))
	return h
}

// ReadSnapshot reads a whole snapshot and checks its frame and every invariant of its contents. The error is
// ErrBadSnapshot.
func ReadSnapshot(r io.Reader) (*State, error) {
	body, err := readSnapshotBody(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadSnapshot, err)
	}
	msg := &raftlogv1.Snapshot{}
	if err := proto.Unmarshal(body, msg); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadSnapshot, err)
	}
	state, err := decodeState(msg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadSnapshot, err)
	}
	return state, nil
}

func readSnapshotBody(r io.Reader) ([]byte, error) {
	var h [snapshotHeaderSize]byte
	if n, err := io.ReadFull(r, h[:]); err != nil {
		return nil, fmt.Errorf("truncated: %d bytes of a %d-byte header", n, snapshotHeaderSize)
	}
	if string(h[:8]) != snapshotMagic {
		return nil, errors.New("this is not a snapshot of this product")
	}
	if format := binary.BigEndian.Uint32(h[8:]); format != snapshotFormat {
		return nil, fmt.Errorf("format %d, this version reads %d", format, snapshotFormat)
	}
	length := binary.BigEndian.Uint64(h[12:])
	if length > maxSnapshotBody {
		return nil, fmt.Errorf("%d bytes announced, at most %d", length, maxSnapshotBody)
	}
	// One byte more than announced, so that a tail shows. ReadAll grows with what
	// really comes: an altered length cannot make it allocate.
	body, err := io.ReadAll(io.LimitReader(r, int64(length)+1))
	if err != nil {
		return nil, err
	}
	if uint64(len(body)) != length {
		return nil, fmt.Errorf("%d bytes announced, %d or more found", length, len(body))
	}
	if snapshotHeader(body) != h {
		return nil, errors.New("checksum mismatch: the bytes were altered")
	}
	return body, nil
}

func encodeState(s *State) *raftlogv1.Snapshot {
	config := s.Ledger.Config
	msg := &raftlogv1.Snapshot{
		Format:          snapshotFormat,
		ClusterId:       s.ClusterID,
		HashSecret:      s.HashSecret.Bytes(),
		LeaseMicros:     config.Lease.Microseconds(),
		RhoPpm:          config.RhoPPM,
		LeaseWaitMicros: config.LeaseWait.Microseconds(),
		LeaseNextMicros: config.LeaseNext.Microseconds(),
		RhoRising:       config.RhoRising,
		Regions:         EncodeRegions(config.Regions),
		ConfigVersion:   config.Version,
		Epoch:           s.Ledger.Epoch,
		RulesVersion:    s.Rules.Version,
		RulesYaml:       s.Rules.YAML,
		RulesAuthor:     s.Rules.Author,
		RulesUnixMs:     s.Rules.UnixMS,
		RuleNumbers:     s.Rules.Numbers,
		NextRuleNumber:  s.Rules.NextNumber,

		RulesComment:     s.Rules.Comment,
		RuleVersions:     encodeHistory(s.Rules.History),
		LastRulesVersion: s.Rules.Last,
		Rollout:          encodeRollout(s.Rules.Rollout),
		Addresses:        EncodeAddresses(s.Addresses),
		Places:           encodePlaces(s.Places),
		Above:            encodeEntries(s.Rules.Entries),
		EntriesRevision:  s.Rules.EntriesRevision,
		EntryChanges:     encodeChanges(s.Rules.EntryChanges),
		AppliedVersion:   s.Rules.Applied,
		AppliedIndex:     s.AppliedIndex,
	}
	keys := s.Ledger.Keys()
	msg.Entries = make([]*raftlogv1.Liabilities, len(keys))
	for i, k := range keys {
		msg.Entries[i] = encodeLiabilities(budget.Entry{Key: k, Shares: s.Ledger.Shares(k)})
	}
	return msg
}

func decodeState(m *raftlogv1.Snapshot) (*State, error) {
	s := &State{ClusterID: m.GetClusterId(), AppliedIndex: m.GetAppliedIndex()}
	s.Ledger.Epoch = m.GetEpoch()
	if m.GetFormat() != snapshotFormat {
		return nil, fmt.Errorf("format %d, this version reads %d", m.GetFormat(), snapshotFormat)
	}
	var err error
	if s.Addresses, err = decodeAddresses(m.GetAddresses()); err != nil {
		return nil, err
	}
	if s.Places, err = decodePlaces(m.GetPlaces()); err != nil {
		return nil, err
	}
	if s.Rules, err = decodeRuleBook(m); err != nil {
		return nil, err
	}
	if s.ClusterID == "" {
		return s, nil // taken before the first leader's bootstrap
	}
	secret, ok := newSecret(m.GetHashSecret())
	if !ok {
		return nil, fmt.Errorf("a key-hash secret of %d bytes", len(m.GetHashSecret()))
	}
	s.HashSecret = secret
	s.Ledger.Config = budget.Config{
		Lease:     time.Duration(m.GetLeaseMicros()) * time.Microsecond,
		LeaseWait: time.Duration(m.GetLeaseWaitMicros()) * time.Microsecond,
		LeaseNext: time.Duration(m.GetLeaseNextMicros()) * time.Microsecond,
		RhoPPM:    m.GetRhoPpm(),
		RhoRising: m.GetRhoRising(),
		Version:   m.GetConfigVersion(),
		Regions:   decodeRegions(m.GetRegions()),
	}
	if err := checkConfig(s.Ledger.Config); err != nil {
		return nil, err
	}
	return s, restoreEntries(&s.Ledger, m.GetEntries())
}

func restoreEntries(ledger *budget.Ledger, entries []*raftlogv1.Liabilities) error {
	for i, l := range entries {
		e, err := decodeLiabilities(l)
		if err != nil {
			return err
		}
		if e.Shares == nil || ledger.Shares(e.Key) != nil {
			return fmt.Errorf("entry %d is empty or given twice", i)
		}
		if err := ledger.Restore(e); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}

func decodeRuleBook(m *raftlogv1.Snapshot) (RuleBook, error) {
	b := RuleBook{
		Version: m.GetRulesVersion(), YAML: m.GetRulesYaml(), Author: m.GetRulesAuthor(), UnixMS: m.GetRulesUnixMs(), Comment: m.GetRulesComment(),
		Numbers: m.GetRuleNumbers(), NextNumber: max(m.GetNextRuleNumber(), firstRuleNumber), Last: max(m.GetLastRulesVersion(), m.GetRulesVersion()),
	}
	if b.Version == 0 {
		return b, nil
	}
	b.Forgotten = b.Version - 1
	set, _, err := rules.Parse("rules.yaml", []byte(b.YAML))
	if err != nil {
		return RuleBook{}, fmt.Errorf("the rules in it do not parse in this version: %w", err)
	}
	if b.Entries, err = decodeEntries(m); err != nil {
		return RuleBook{}, err
	}
	b.Applied, b.EntryChanges = cmp.Or(m.GetAppliedVersion(), b.Version), decodeChanges(m.GetEntryChanges())
	b.EntriesRevision = max(m.GetEntriesRevision(), uint64(min(len(m.GetTierValues()), 1)))
	b.Set = set.With(entriesAbove(b.Entries))
	if b.History, err = decodeHistory(m.GetRuleVersions()); err != nil {
		return RuleBook{}, err
	}
	if len(b.History) == 0 { // of a version of this product that kept none
		b.History = []RuleVersion{newRuleVersion(b.Version, 0, &raftlogv1.ApplyRules{Yaml: b.YAML, Author: b.Author, UnixMs: b.UnixMS})}
	}
	if b.Rollout, err = decodeRollout(m.GetRollout(), &b); err != nil {
		return RuleBook{}, err
	}
	return b.indexed(), nil
}
