package state

import (
	"sync"

	raftlogv1 "aliquot/proto/raftlog/v1"
	"aliquot/rules"
)

// ruleParser parses rules and remembers the last outcome. Parsing is a pure function, so
// that remembering it changes nothing, but a file of ten thousand rules takes long: it
// is read once where it is proposed, not again where it is applied, and never while the
// state is locked. Safe for concurrent use; the zero value is ready.
type ruleParser struct {
	mu   sync.Mutex
	last parsed
	// ahead is held while proposed rules are read: each text takes a hundred times its size.
	ahead sync.Mutex
}

// parsed is an outcome; neither part of it is ever changed.
type parsed struct {
	file, yaml string
	set        *rules.Set
	warnings   []rules.Warning
	err        error
}

func (p *ruleParser) parse(file, yaml string) (*rules.Set, []rules.Warning, error) {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	if known := last.set != nil || last.err != nil; !known || last.file != file || last.yaml != yaml {
		last = parsed{file: file, yaml: yaml}
		last.set, last.warnings, last.err = rules.Parse(file, []byte(yaml))
		p.mu.Lock()
		p.last = last
		p.mu.Unlock()
	}
	return last.set, last.warnings, last.err
}

// readAhead parses what a command brings, before the state is locked for it.
func (p *ruleParser) readAhead(cmd *raftlogv1.Command) {
	a := cmd.GetApplyRules()
	if staged := cmd.GetStageRules(); staged != nil {
		a = staged.GetRules()
	}
	if a != nil {
		p.ahead.Lock()
		defer p.ahead.Unlock()
		_, _, _ = p.parse(a.GetFileName(), a.GetYaml()) // the outcome is asked for again
	}
}
