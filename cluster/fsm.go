package cluster

import (
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// fsm lets Raft drive a State. It has no clock, no I/O but the snapshot's, and no
// opinion: a command it cannot read ends the process, because a node that skips
// what others apply has silently become another database.
type fsm struct {
	mu      sync.RWMutex
	state   State
	parser  ruleParser
	refused error         // why the last snapshot to be restored was not; raft only logs it
	changed chan struct{} // closed and replaced when state changes
}

var _ raft.FSM = (*fsm)(nil)

func newFSM() *fsm {
	return &fsm{state: State{Rules: RuleBook{NextNumber: firstRuleNumber}}, changed: make(chan struct{})}
}

// Apply implements raft.FSM.
func (f *fsm) Apply(entry *raft.Log) any {
	cmd, err := decodeCommand(entry.Data)
	if err != nil {
		panic(fmt.Sprintf("cluster: log entry %d of term %d: %v; upgrade this node to the version of its leader", entry.Index, entry.Term, err))
	}
	f.parser.readAhead(cmd)
	f.mu.Lock()
	defer f.mu.Unlock()
	answer, changed := f.state.apply(cmd, &f.parser)
	if changed {
		f.state.AppliedIndex = entry.Index
		f.announce()
	}
	return answer
}

// Snapshot implements raft.FSM: a copy under the lock, written out beside it.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return &snapshot{state: f.state.clone()}, nil
}

// Restore implements raft.FSM; a refused snapshot leaves the state as it was.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	state, err := readSnapshot(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused = err; err != nil {
		return err
	}
	f.state = *state
	f.announce()
	return nil
}

// view runs read with the state locked for reading.
func (f *fsm) view(read func(*State)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	read(&f.state)
}

// next is a channel that closes at the next change.
func (f *fsm) next() <-chan struct{} {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.changed
}

// announce wakes everyone who waits for a change; the lock is held.
func (f *fsm) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// snapshot is a copy of the state on its way to disk.
type snapshot struct{ state *State }

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := writeSnapshot(sink, s.state); err != nil {
		return fmt.Errorf("%w (cancel: %v)", err, sink.Cancel())
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (*snapshot) Release() {}
