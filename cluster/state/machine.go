package state

import (
	"fmt"
	"io"
	"sync"

	"aliquot/rules"
)

// Machine is the replicated state machine: Raft hands it the log's entries and its snapshots. It has no clock, no I/O
// but the snapshot's, and no opinion: a command it cannot read ends the process, because a node that skips
// what others apply has silently become another database. It is safe for concurrent use; make it with NewMachine.
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

// Apply applies one entry of the log and returns the state machine's answer: an error of type error means that nothing
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

// Copy returns a copy of the state, which no later command changes.
func (m *Machine) Copy() *State {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.clone()
}

// Restore replaces the state by that of a snapshot. After an error the state is as it was.
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

// announce wakes everyone who waits for a change; the lock is held.
func (m *Machine) announce() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// ParseRules parses a rules file and returns what it states, without tier values, and its
// warnings, or a *rules.Error. What is applied next is not parsed again.
func (m *Machine) ParseRules(file, yaml string) (*rules.Set, []rules.Warning, error) {
	return m.parser.parse(file, yaml)
}
