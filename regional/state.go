package regional

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// stateFormat is the version of the state file's format.
	stateFormat = 1
	// maxStateBytes is well above the largest rules file with its escapes.
	maxStateBytes = 32 << 20
	// saveAgain is the wait after a failed write.
	saveAgain = 10 * time.Second
)

// state is what a daemon needs to go on without coordinators after a restart. The
// file holds the secret that keys are hashed with, so only its owner may read it.
type state struct {
	Format  int           `json:"format"`
	Region  string        `json:"region"`
	Cluster clusterConfig `json:"cluster"`
	Rules   ruleText      `json:"rules"`
	// Epoch is the highest epoch of a leader that opened a session here: after a
	// restart an older leader must not be believed.
	Epoch uint64 `json:"epoch"`
}

// makeStateDir makes the state file's directory if it is missing, for its owner
// only, and sees that the file can be written: better refuse to start than to find
// out when a restart needs the file.
func makeStateDir(file string) error {
	if file == "" {
		return nil
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--state-file %s: its directory is missing and cannot be made: %w; make it, or name another file", file, err)
	}
	temp, err := createTemp(file)
	if err != nil {
		return fmt.Errorf("--state-file %s cannot be written: %w; name a file in a directory that this daemon may write to", file, err)
	}
	return errors.Join(temp.Close(), os.Remove(temp.Name()))
}

// createTemp makes a file beside another one that may replace it, mode 0600.
func createTemp(file string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.tmp")
}

// readState reads a state file. None yet, or none at all (an empty name), is not an
// error, and neither is a damaged one: that is put aside as FILE.bad and the daemon
// asks the coordinators again. Another region's is.
func readState(file, region string, log *slog.Logger) (*state, error) {
	if file == "" {
		return nil, nil
	}
	data, err := readBounded(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--state-file %s: %w", file, err)
	}
	s, err := parseState(data)
	if err != nil {
		return nil, putAside(file, err, log)
	}
	if s.Region != region {
		return nil, fmt.Errorf("--state-file %s belongs to region %q, this daemon is region %q; "+
			"give each region a file of its own", file, s.Region, region)
	}
	if err := s.Cluster.check(region); err != nil {
		return nil, putAside(file, err, log)
	}
	return s, nil
}

func readBounded(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if info.Size() > maxStateBytes {
		return nil, fmt.Errorf("it has %d bytes, no state file is larger than %d; is it the right file?", info.Size(), maxStateBytes)
	}
	return os.ReadFile(file)
}

func parseState(data []byte) (*state, error) {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	if s.Format != stateFormat {
		return nil, fmt.Errorf("format %d, this version reads format %d", s.Format, stateFormat)
	}
	for i, r := range s.Cluster.Regions {
		s.Cluster.Regions[i] = r.normal()
	}
	return &s, nil
}

// putAside keeps a damaged file for inspection and goes on without it.
func putAside(file string, cause error, log *slog.Logger) error {
	log.Warn("the state file is damaged and was put aside; until a coordinator answers, this region knows no rules and lets everything pass",
		"file", file, "kept_as", file+".bad", "error", cause)
	if err := os.Rename(file, file+".bad"); err != nil {
		return fmt.Errorf("--state-file %s is damaged (%v) and cannot be put aside: %w", file, cause, err)
	}
	return nil
}

// keeper writes the state file. Safe for concurrent use.
type keeper struct {
	file     string // empty: none is kept
	region   string
	policies *policies
	log      *slog.Logger
	mu       sync.Mutex
	failing  bool // the last write failed
	// kept is what the file knows; nil while there is no file.
	kept *keptConfig
}

// keptConfig is the part of a configuration that a region acknowledges: a restart
// must not forget it.
type keptConfig struct {
	region regionConfig
	timing timing
}

func (c *clusterConfig) kept(region string) *keptConfig {
	return &keptConfig{c.Regions[c.index(region)], c.timing()}
}

// newKeeper makes a keeper; read is what the file holds, nil if nothing.
func newKeeper(file, region string, read *state, p *policies, log *slog.Logger) *keeper {
	k := &keeper{file: file, region: region, policies: p, log: log}
	if read != nil {
		k.kept = read.Cluster.kept(region)
	}
	return k
}

// outdated reports whether the file would make a restart believe in another floor or
// timing than c's.
func (k *keeper) outdated(c *clusterConfig) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept != nil && *k.kept != *c.kept(k.region)
}

// save writes the policy in force, once there is one, and reports whether that
// worked. A daemon whose disk fails goes on: it can do all but restart alone.
func (k *keeper) save() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.policies.load()
	if k.file == "" || p.cluster.ClusterID == "" {
		return true
	}
	err := writeState(k.file, &state{Region: k.region, Cluster: p.cluster, Rules: p.text, Epoch: p.epoch})
	switch {
	case err != nil && !k.failing:
		k.log.Error("the state file cannot be written; until it can, a restart will need a coordinator", "file", k.file, "error", err)
	case err == nil && k.failing:
		k.log.Info("the state file is written again", "file", k.file)
	}
	k.failing = err != nil
	if err == nil {
		k.kept = p.cluster.kept(k.region)
	}
	return err == nil
}

// run saves whenever there is something new to remember.
func (k *keeper) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.policies.changed:
		}
		if k.save() {
			continue
		}
		k.policies.remind()
		if !pause(ctx, saveAgain) {
			return
		}
	}
}

// writeState replaces a state file in one step: whoever reads it finds the old or
// the new one, even after a power cut.
func writeState(file string, s *state) error {
	s.Format = stateFormat
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	temp, err := createTemp(file)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails once it was renamed
	_, err = temp.Write(append(data, '\n'))
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), file); err != nil {
		return err
	}
	return syncDir(filepath.Dir(file))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
