package cluster

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"aliquot/cluster/state"
)

// fsm lets Raft drive the state machine.
type fsm struct {
	*state.Machine
	refusal error         // why the last snapshot was not restored; nil if it was. Raft only logs it
	started atomic.Uint64 // number of log entries since the start
	applied atomic.Uint64 // of them, number of those that are applied
}

var _ raft.FSM = (*fsm)(nil)

func newFSM() *fsm { return &fsm{Machine: state.NewMachine()} }

// Apply implements raft.FSM.
func (f *fsm) Apply(entry *raft.Log) any {
	f.started.Add(1)
	defer f.applied.Add(1)
	return f.Machine.Apply(entry.Index, entry.Term, entry.Data)
}

// Snapshot implements raft.FSM: a copy under the lock, written out beside it.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) { return &snapshot{f.Copy()}, nil }

// Restore implements raft.FSM; a refused snapshot leaves the state as it was.
func (f *fsm) Restore(r io.ReadCloser) error {
	defer r.Close()
	err := f.Machine.Restore(r)
	f.refusal = err
	return err
}

// snapshot is a copy of the state on its way to disk.
type snapshot struct{ state *state.State }

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := state.WriteSnapshot(sink, s.state); err != nil {
		return fmt.Errorf("%w (cancel: %v)", err, sink.Cancel())
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (*snapshot) Release() {}
