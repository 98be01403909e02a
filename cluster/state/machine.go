package state

import (
	"fmt"
	"io"
	"sync"

	"aliquot/rules"
)

// Machine is the replicated state machine. Raft hands it log entries and snapshots. It reads no clock and does no
// I/O except for the snapshot's reader. A command that it cannot read ends the process: a node that skipped a
// command would diverge from the others. It is safe for concurrent use; make it with NewMachine.
type Machine struct {
	mu      sync.RWMutex
	state   State
	parser  ruleParser
	changed chan struct{} // closed and replaced when state changes
}

// NewMachine returns a state machine with an empty state.
func NewMachine() *Machine {
	return &Machine{state: State{Rules: RuleBook{NextNumber: firstRuleNumber}}, changed: make(chan struct{})}
}

// Apply applies one log entry and returns the answer of the state machine. If the answer is an error, nothing has
// changed. It panics if this version cannot read the entry.
func (m *Machine) Apply(index, term uint64, entry []byte) any {
	cmd, err := DecodeCommand(entry)
	if err != nil {
		panic(fmt.Sprintf("cluster: log entry %d of term %d: %v; upgrade this node to the version of its leader", index, term, err))
	}
	m.parser.readAhead(cmd)
	m.mu.Lock()
	defer m.mu.Unlock()
	answer, changed := m.state.apply(cmd, &m.parser)
	if changed {
		m.state.AppliedIndex = index
		m.announce()
	}
	return answer
}

// Copy returns a copy of the state that no later command changes.
func (m *Machine) Copy() *State {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.clone()
}

// Restore replaces the state with that of a snapshot. After an error the state is unchanged.
func (m *Machine) Restore(snapshot io.Reader) error {
	s, err := ReadSnapshot(snapshot)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = *s
	m.announce()
	return nil
}

// View runs read with the state locked for reading. read must be quick, change nothing and keep no reference into it.
func (m *Machine) View(read func(*State)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	read(&m.state)
}

// Changed returns a channel that closes at the next change of the state.
func (m *Machine) Changed() <-chan struct{} {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.changed
}

// announce wakes all who wait for a change. The caller holds the lock.
func (m *Machine) announce() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// ParseRules parses a rules file and returns its rules, without tier values, and its warnings. The error is a
// *rules.Error. A file that is applied next is not parsed a second time.
func (m *Machine) ParseRules(file, yaml string) (*rules.Set, []rules.Warning, error) {
	return m.parser.parse(file, yaml)
}
