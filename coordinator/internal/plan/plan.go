// Package plan asks the regions what other rules would have decided about their recent requests, and adds
// up their answers.
package plan

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"aliquot/coordinator/internal/leader"
	"aliquot/internal/leasewire"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// ErrBusy is the error of a plan that begins while another one is under way.
var ErrBusy = errors.New("the regions answer another plan at present; retry in a moment")

// Limits of a region's result of a plan, and of the answer.
const (
	maxRules    = 1000
	maxExamples = 10
	maxError    = 1024
	// maxCount is above the decisions of any region in ten minutes. Sums of such counts are far below
	// the largest int64.
	maxCount = 1 << 40
)

// Planner holds the plan that is under way while this node leads: what the regions are asked and what
// they have answered. There is one plan at a time, because each sends up to 4 MiB of rules to every
// region. The zero value is ready. It is safe for concurrent use.
type Planner struct {
	mu      sync.Mutex
	current *Question
}

// Question is what one plan asks the regions. The planner's mu guards the fields that change.
type Question struct {
	task *aliquotv1.PlanTask
	// waiting are the indices of the regions that have not answered.
	waiting map[int]bool
	// sent are the regions that were asked, each with its session then: if the leader's answer is lost,
	// the session ends too.
	sent    map[int]leader.SessionID
	results map[int]*aliquotv1.PlanResult
	// done is closed when every region has answered.
	done chan struct{}
}

// Begin starts a plan for the live regions. The caller must call End. Begin returns ErrBusy while another
// plan is under way.
func (b *Planner) Begin(yaml string, within time.Duration, regions []int) (*Question, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current != nil {
		return nil, ErrBusy
	}
	p := &Question{
		// A random id, so that an answer to another leader's plan does not match.
		task: &aliquotv1.PlanTask{Id: rand.Uint64() | 1, Yaml: yaml, WithinMicros: within.Microseconds()},
		sent: map[int]leader.SessionID{}, results: map[int]*aliquotv1.PlanResult{}, waiting: map[int]bool{}, done: make(chan struct{}),
	}
	for _, i := range regions {
		p.waiting[i] = true
	}
	if len(regions) == 0 {
		close(p.done)
	}
	b.current = p
	return p, nil
}

// Done is closed when every region has answered.
func (q *Question) Done() <-chan struct{} { return q.done }

// End ends the plan and returns the results by region.
func (b *Planner) End(p *Question) map[int]*aliquotv1.PlanResult {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == p {
		b.current = nil
	}
	return p.results
}

// TaskFor returns the task to send with the answer to a region's report; nil if there is none, or it
// was sent in this session.
func (b *Planner) TaskFor(region int, in leader.SessionID) *aliquotv1.PlanTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil || !b.current.waiting[region] || b.current.sent[region] == in {
		return nil
	}
	b.current.sent[region] = in
	return b.current.task
}

// Accept takes the result of a region. An invalid result counts as an answer, and the plan shows it as
// an error.
func (b *Planner) Accept(region int, result *aliquotv1.PlanResult) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.current
	if result == nil || p == nil || result.GetId() != p.task.GetId() || !p.waiting[region] {
		return
	}
	if err := check(result); err != nil {
		result = &aliquotv1.PlanResult{Replayed: &aliquotv1.RegionPlan{Error: "its answer cannot be right: " + err.Error()}}
	}
	p.results[region] = result
	delete(p.waiting, region)
	if len(p.waiting) == 0 {
		close(p.done)
	}
}

// check returns an error if no region can have found this result.
func check(r *aliquotv1.PlanResult) error {
	of := r.GetReplayed()
	switch {
	case len(r.GetRules()) > maxRules:
		return fmt.Errorf("%d rules", len(r.GetRules()))
	case len(of.GetError()) > maxError || !Printable(of.GetError()):
		return fmt.Errorf("an error of %d bytes", len(of.GetError()))
	case of.GetSpan() != nil && (of.GetSpan().CheckValid() != nil || of.GetSpan().AsDuration() < 0):
		return fmt.Errorf("a span that is not a duration")
	}
	counts := []int64{of.GetRequests(), of.GetKeys(), of.GetOneIn(), r.GetNewlyDeniedRequests(), r.GetNewlyAllowedRequests()}
	for _, rule := range r.GetRules() {
		counts = append(counts, rule.GetNewlyDeniedKeys(), rule.GetNewlyAllowedKeys(), rule.GetNewlyDeniedRequests(), rule.GetNewlyAllowedRequests())
		if len(rule.GetRuleId()) > maxRuleID || !Printable(rule.GetRuleId()) || len(rule.GetDeniedKeyHashes()) > maxExamples {
			return fmt.Errorf("a malformed rule")
		}
		for _, hash := range rule.GetDeniedKeyHashes() {
			if raw, err := base64.RawURLEncoding.DecodeString(hash); err != nil || len(raw) != leasewire.HashBytes {
				return fmt.Errorf("a malformed key hash")
			}
		}
	}
	for _, n := range counts {
		if n < 0 || n > maxCount {
			return fmt.Errorf("a count of %d", n)
		}
	}
	return nil
}

// Printable reports whether a text can be shown on a terminal.
func Printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError })
}

// maxRuleID bounds a rule's id in bytes, above what a rules file allows.
const maxRuleID = 1024
