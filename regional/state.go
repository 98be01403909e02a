package regional

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/internal/durable"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/session"
)

const (
	// stateFormat is the version of the state file's format.
	stateFormat = 1
	// maxStateBytes is well above the size of the largest rules file with its escapes.
	maxStateBytes = 32 << 20
	// saveRetry is the wait after a write that failed.
	saveRetry = 10 * time.Second
)

// state holds the data with which a daemon can restart and go on without coordinators. The file
// contains the secret with which keys are hashed, so only its owner may read it.
type state struct {
	// Sum is the SHA-256 of the file in hex, computed with zeros in Sum's own place. It is empty in
	// files of older versions. It is the first field, so that the same text cannot come earlier in
	// the file.
	Sum     string          `json:"sum,omitempty"`
	Format  int             `json:"format"`
	Region  string          `json:"region"`
	Cluster policy.Cluster  `json:"cluster"`
	Rules   policy.RuleText `json:"rules"`
	// NoRules: the coordinators have no rules. Empty Rules alone would not say that.
	NoRules bool `json:"no_rules,omitempty"`
	// Epoch is the highest epoch of a leader that opened a session here. After a restart the daemon
	// must not accept an older leader.
	Epoch uint64 `json:"epoch"`
	// Daemon is the file's id, which is a part of the daemon's id. Others are the ids of the other
	// daemons of the region that it knows, 16 hex digits each.
	Daemon string   `json:"daemon,omitempty"`
	Others []string `json:"others,omitempty"`
	// Former are earlier versions of rules under which records in the store may still be stored.
	Former []policy.FormerState `json:"former_rules,omitempty"`
}

// others returns the ids of the other daemons.
func (s *state) others() []budget.DaemonID {
	var out []budget.DaemonID
	for _, text := range s.Others {
		if id, err := strconv.ParseUint(text, 16, 64); err == nil {
			out = append(out, budget.DaemonID(id))
		}
	}
	return out
}

// NoStateFile is the value of StateFile for no state file.
const NoStateFile = "none"

// openState reads the daemon's state file and checks that it can be written. It returns nil if there
// is no file, or if the file is damaged. If a default file cannot be used, openState logs a warning
// and the daemon runs without one. For any other file it returns an error that names the flag.
func openState(c *Config, log *slog.Logger) (*state, error) {
	if c.StateFile == NoStateFile {
		c.StateFile = ""
	}
	if c.StateFile == "" {
		log.Info("there is no state file: after a restart nothing passes until a coordinator has told the rules")
		return nil, nil
	}
	err := makeStateDir(c.StateFile)
	if left := errors.Join(durable.RemoveTemp(c.StateFile), durable.RemoveTemp(c.StateFile+recordsSuffix)); left != nil && err == nil {
		log.Warn("what a crash has left beside the state file cannot be removed", "file", c.StateFile, "error", left)
	}
	var kept *state
	if err == nil {
		kept, err = readState(c.StateFile, c.Region, log)
	}
	if err == nil || !c.StateFileIsDefault || errors.Is(err, errNewerState) {
		return kept, err
	}
	log.Warn("the default state file cannot be used: after a restart nothing passes until a coordinator has told the rules; "+
		"name a file that this daemon may write with --state-file, or none", "error", err)
	c.StateFile = ""
	return nil, nil
}

// makeStateDir makes the state file's directory, for its owner only, if it is missing, and checks
// that the file can be written. A daemon that refuses to start is better than one that cannot
// restart later.
func makeStateDir(file string) error {
	if file == "" {
		return nil
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--state-file %s: its directory is missing and cannot be made: %w; make it, or name another file", file, err)
	}
	temp, err := durable.CreateTemp(file)
	if err != nil {
		return fmt.Errorf("--state-file %s cannot be written: %w; name a file in a directory that this daemon may write to", file, err)
	}
	return errors.Join(temp.Close(), os.Remove(temp.Name()))
}

// readState reads a state file. It returns nil without an error if the name is empty, or if the file
// is missing or damaged. A damaged file is renamed to FILE.bad, and the daemon asks the coordinators
// again. A file of another region is an error, and so is one of a newer format.
func readState(file, region string, log *slog.Logger) (*state, error) {
	if file == "" {
		return nil, nil
	}
	data, err := readBounded(file, maxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--state-file %s: %w", file, err)
	}
	s, err := parseState(data)
	if errors.Is(err, errNewerState) {
		return nil, fmt.Errorf("--state-file %s: %w; start the version that wrote it, or move the file away: "+
			"then nothing passes until a coordinator has told the rules", file, err)
	}
	if err != nil {
		return nil, putAside(file, err, log)
	}
	if s.Region != region {
		return nil, fmt.Errorf("--state-file %s belongs to region %q, this daemon is region %q; "+
			"give each region a file of its own", file, s.Region, region)
	}
	if err := s.Cluster.Check(region); err != nil {
		return nil, putAside(file, err, log)
	}
	warnOfReaders(file, log)
	return s, nil
}

// warnOfReaders logs that others may read a state file.
func warnOfReaders(file string, log *slog.Logger) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o007 != 0 {
		log.Warn("others on this machine can read the state file, and with it the secret that keys are hashed with",
			"file", file, "mode", info.Mode().Perm().String(), "what_to_do", "chmod o-rwx "+file)
	}
}

// readBounded reads a regular file of at most max bytes.
func readBounded(file string, max int64) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if info.Size() > max {
		return nil, fmt.Errorf("it has %d bytes, no such file is larger than %d; is it the right file?", info.Size(), max)
	}
	return os.ReadFile(file)
}

func parseState(data []byte) (*state, error) {
	var of struct { // in a newer format the other fields may have other types
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &of); err == nil && of.Format > stateFormat {
		return nil, fmt.Errorf("%w: format %d, this version reads format %d", errNewerState, of.Format, stateFormat)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	if s.Format != stateFormat {
		return nil, fmt.Errorf("format %d, this version reads format %d", s.Format, stateFormat)
	}
	if s.Sum != "" && s.Sum != stateSum(data, s.Sum) {
		return nil, errors.New("its content does not match its checksum")
	}
	for _, epoch := range []uint64{s.Epoch, s.Cluster.LeaderEpoch} {
		if !(budget.Gen{Epoch: epoch}).Valid() {
			return nil, fmt.Errorf("epoch %d; no leader has that", epoch)
		}
	}
	for i, r := range s.Cluster.Regions {
		s.Cluster.Regions[i] = r.Normal()
	}
	return &s, nil
}

// errNewerState: a newer version of this program wrote the file.
var errNewerState = errors.New("it was written by a newer version")

// noSum takes the place of the checksum while the checksum is computed.
var noSum = strings.Repeat("0", hex.EncodedLen(sha256.Size))

// stateSum returns the checksum of a state file's text in which sum takes the place of the
// checksum.
func stateSum(data []byte, sum string) string {
	of := sha256.Sum256(bytes.Replace(data, []byte(sum), []byte(noSum), 1))
	return hex.EncodeToString(of[:])
}

// putAside renames a damaged file, to keep it for inspection, and goes on without it.
func putAside(file string, cause error, log *slog.Logger) error {
	log.Error("the state file is damaged and was put aside; this daemon knows no rules until a coordinator has told them",
		"file", file, "kept_as", file+".bad", "error", cause)
	if err := os.Rename(file, file+".bad"); err != nil {
		return fmt.Errorf("--state-file %s is damaged (%v) and cannot be put aside: %w", file, cause, err)
	}
	warnOfReaders(file+".bad", log)
	return nil
}

// copyUnreadable copies a state file whose rules this version cannot read, because the next write of
// the file would lose them.
func copyUnreadable(file string, log *slog.Logger) {
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file+".bad", data, 0o600)
	}
	log.Error("the rules in the state file cannot be read by this version; this daemon knows no rules until a coordinator has told them",
		"file", file, "copied_to", file+".bad", "copy_error", err)
}

// stateFile writes the state file. Safe for concurrent use.
type stateFile struct {
	path     string // empty: there is no file
	region   string
	policies *policy.Policies
	others   *session.Others
	id       string // the file's id
	log      *slog.Logger
	mu       sync.Mutex
	failing  bool // the last write failed
	// saved is the configuration in the file; nil while there is no file.
	saved *savedConfig
}

// savedConfig is the part of a configuration that a region acknowledges to the leader. A restart must
// not forget it.
type savedConfig struct {
	region policy.Region
	timing policy.Timing
}

func savedConfigOf(c *policy.Cluster, region string) *savedConfig {
	return &savedConfig{c.Regions[c.Index(region)], c.Timing()}
}

// stateID returns the id of the state file: the one in it, or a new one for a new file. Without a file it is the host's
// name, because a daemon on another host may have the same address. It holds over restarts, and is another one at each
// start where the host has no name. read is the contents of the file, or nil if there are none.
func stateID(file string, read *state, hostname func() (string, error)) string {
	if read != nil && read.Daemon != "" {
		return read.Daemon
	}
	if file == "" {
		if name, err := hostname(); err == nil && name != "" {
			return name
		}
	}
	return session.NewFileID()
}

// newStateFile returns the writer of a file with an id. read is the contents of the file, or nil if
// there are none.
func newStateFile(file, region, id string, read *state, p *policy.Policies, o *session.Others, log *slog.Logger) *stateFile {
	f := &stateFile{path: file, region: region, id: id, policies: p, others: o, log: log}
	if read != nil {
		f.saved = savedConfigOf(&read.Cluster, region)
	}
	return f
}

// Name returns the file's path; empty: there is no file.
func (f *stateFile) Name() string { return f.path }

// Outdated reports whether a restart from the file would use another floor or other timing than c.
func (f *stateFile) Outdated(c *policy.Cluster) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.saved != nil && *f.saved != *savedConfigOf(c, f.region)
}

// Save writes the policy in force, if there is one. It returns false if that failed. A daemon whose
// disk fails goes on: it only needs a coordinator for its next restart.
func (f *stateFile) Save() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.policies.Load()
	if f.path == "" || p.Cluster.ClusterID == "" {
		return true
	}
	now := &state{Region: f.region, Cluster: p.Cluster, Rules: p.Text, NoRules: p.None, Epoch: p.Epoch, Daemon: f.id, Former: p.FormerState()}
	for _, id := range f.others.Known() {
		now.Others = append(now.Others, fmt.Sprintf("%016x", uint64(id)))
	}
	err := writeState(f.path, now)
	switch {
	case err != nil && !f.failing:
		f.log.Error("the state file cannot be written; until it can, a restart will need a coordinator", "file", f.path, "error", err)
	case err == nil && f.failing:
		f.log.Info("the state file is written again", "file", f.path)
	}
	f.failing = err != nil
	if err == nil {
		f.saved = savedConfigOf(&p.Cluster, f.region)
	}
	return err == nil
}

// run saves the policy whenever it changes, until ctx ends.
func (f *stateFile) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.policies.Changed:
		}
		if f.Save() {
			continue
		}
		f.policies.Remind()
		if !background.Pause(ctx, saveRetry) {
			return
		}
	}
}

// writeState replaces a state file in one step. A reader finds the old file or the new one, even
// after a power cut.
func writeState(file string, s *state) error {
	s.Format, s.Sum = stateFormat, noSum
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	data = bytes.Replace(data, []byte(noSum), []byte(stateSum(data, noSum)), 1)
	return durable.WriteFile(file, data)
}
