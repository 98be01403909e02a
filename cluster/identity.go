package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/gossip"
	"aliquot/internal/durable"
)

const (
	identityFile   = "node.json"
	lockFile       = "lock"
	identityFormat = 1
	// instanceBytes is enough for the few instances of one node id: eight hex characters.
	instanceBytes = 4
	// maxIdentityBytes is the largest node.json that is read; a real one has about 200 bytes.
	maxIdentityBytes = 4096
)

// identity is what a data directory stores about its node. The instance id is created when the directory is first
// used. A node that lost its disk comes back as another Raft server, and can neither vote twice nor be mistaken for
// its predecessor.
type identity struct {
	Format     int    `json:"format"`
	NodeID     string `json:"node_id"`
	InstanceID string `json:"instance_id"`
	// ClusterID is the cluster of the node; empty while it is unknown.
	ClusterID string `json:"cluster_id,omitempty"`
	// Member is set once the node was a voter: from then on it never asks to join.
	Member bool `json:"member,omitempty"`
	// Listed is set once the node was a server of any kind: if it no longer is one, it was removed.
	Listed bool `json:"listed,omitempty"`
}

func (id identity) serverID() raft.ServerID { return gossip.ServerID(id.NodeID, id.InstanceID) }

// dataDir is an open, locked data directory.
type dataDir struct {
	path string
	lock *os.File
	id   identity
}

// openDataDir opens and locks the directory, which it creates if it is missing, and reads or creates its identity.
func openDataDir(path, nodeID string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir %s: %w", path, err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	d := &dataDir{path: path, lock: lock}
	if err := d.loadIdentity(nodeID); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// readableByOthers returns the files of the directory that others on this machine can read or write.
func (d *dataDir) readableByOthers() (names []string) {
	open := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().Perm()&0o007 != 0
	}
	entries, err := os.ReadDir(d.path)
	if err != nil || !open(d.path) {
		return nil
	}
	for _, e := range entries {
		if open(filepath.Join(d.path, e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names
}

// lockPatience is how long a node waits for the lock of its data directory. A process that has just ended may still hold
// it, and so does a process that is being started, until it runs its own program.
const lockPatience = time.Second

// lockDir takes an advisory lock, which ends with the process in any case.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data-dir %s: %w", path, err)
	}
	const pause = 20 * time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || waited >= lockPatience {
			break
		}
		time.Sleep(pause)
	}
	if err != nil {
		return nil, errors.Join(
			fmt.Errorf("--data-dir %s is in use by another process (%w): stop that one, or give this node a directory of its own", path, err),
			f.Close())
	}
	return f, nil
}

func (d *dataDir) loadIdentity(nodeID string) error {
	file := filepath.Join(d.path, identityFile)
	data, err := readBounded(file, maxIdentityBytes)
	if errors.Is(err, os.ErrNotExist) {
		return d.createIdentity(nodeID)
	}
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if err := json.Unmarshal(data, &d.id); err != nil {
		return fmt.Errorf("%s is damaged (%w): restore it from a backup, or start with an empty --data-dir and let the node join again", file, err)
	}
	if d.id.Format != identityFormat {
		return fmt.Errorf("%s has format %d, this version reads %d: upgrade this node", file, d.id.Format, identityFormat)
	}
	if d.id.NodeID != nodeID {
		return fmt.Errorf("--data-dir %s belongs to node %q, but --node-id is %q: correct one of them, or use an empty directory", d.path, d.id.NodeID, nodeID)
	}
	return nil
}

func (d *dataDir) createIdentity(nodeID string) error {
	b := make([]byte, instanceBytes)
	if _, err := rand.Read(b); err != nil {
		return fmt.Errorf("cluster: create an instance id: %w", err)
	}
	return d.store(identity{Format: identityFormat, NodeID: nodeID, InstanceID: hex.EncodeToString(b)})
}

// store replaces the identity file as a whole and durably.
func (d *dataDir) store(id identity) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("cluster: encode %s: %w", identityFile, err)
	}
	if err := durable.WriteFile(filepath.Join(d.path, identityFile), append(data, '\n')); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	d.id = id
	return nil
}

// sub creates a directory inside the data directory, if it is missing, and returns its path.
func (d *dataDir) sub(name string) (string, error) {
	path := filepath.Join(d.path, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("--data-dir: %w", err)
	}
	return path, nil
}

func (d *dataDir) close() error { return d.lock.Close() }

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are expected", path, info.Size(), limit)
	}
	return os.ReadFile(path)
}
