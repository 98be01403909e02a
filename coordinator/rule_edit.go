package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/cluster"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/rules"
)

const (
	// editAttempts is how often an edit is made anew because the rules changed under it.
	// Edits wait for each other, so only whole files come between.
	editAttempts = 5
	// maxTTL is as good as for ever.
	maxTTL = 10 * 365 * 24 * time.Hour
	minTTL = time.Second
)

// edit is one small change of a rules file, and what to call it in the history.
type edit struct {
	change func(yaml []byte, nowMS int64) ([]byte, error)
	name   string
}

// EditRules makes one small change of the rules in force.
func (s *ruleService) EditRules(ctx context.Context, req *aliquotv1.EditRulesRequest) (*aliquotv1.ApplyRulesResponse, error) {
	if err := checkWords(req.GetAuthor(), req.GetComment()); err != nil {
		return nil, toRPC(err)
	}
	if of, is := req.GetEdit().(*aliquotv1.EditRulesRequest_Tier); is {
		change, err := tierChange(req, of.Tier)
		if err != nil {
			return nil, toRPC(err)
		}
		return atLeader(ctx, s, req, (*peer).EditRules, inForce, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
			return s.changeTier(ctx, change)
		})
	}
	e, err := editOf(req)
	if err != nil {
		return nil, toRPC(err)
	}
	return atLeader(ctx, s, req, (*peer).EditRules, inForce, func(ctx context.Context) (*aliquotv1.ApplyRulesResponse, error) {
		return s.edit(ctx, req, e)
	})
}

// edit changes the rules in force, again if others were faster: unless the caller has
// said which version it means, it means whichever is in force.
func (s *ruleService) edit(ctx context.Context, req *aliquotv1.EditRulesRequest, e edit) (*aliquotv1.ApplyRulesResponse, error) {
	if !s.node.Leads() {
		return nil, s.node.NotLeader()
	}
	select {
	case s.edits <- struct{}{}:
		defer func() { <-s.edits }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for attempt := 1; ; attempt++ {
		res, err := s.editOnce(ctx, req, e)
		_, conflict := errors.AsType[cluster.ErrVersionConflict](err)
		if !conflict || req.ExpectedVersion != nil || attempt == editAttempts {
			return res, err
		}
	}
}

func (s *ruleService) editOnce(ctx context.Context, req *aliquotv1.EditRulesRequest, e edit) (*aliquotv1.ApplyRulesResponse, error) {
	if err := s.node.Barrier(ctx); err != nil {
		return nil, err
	}
	var version uint64
	var before string
	var last uint64
	s.node.View(func(state *cluster.State) {
		version, last, before = state.Rules.Version, state.Rules.Last, state.Rules.YAML
	})
	switch expected := req.ExpectedVersion; {
	case expected != nil && *expected != version:
		return nil, cluster.ErrVersionConflict{Expected: *expected, InForce: version}
	case version == 0:
		return nil, fmt.Errorf("%w: no rules are in force; apply a file first", cluster.ErrNothingInForce)
	case last > version:
		return nil, fmt.Errorf("%w: version %d is staged; promote or abort it first", cluster.ErrRolloutUnderWay, last)
	}
	after, err := e.change([]byte(before), time.Now().UnixMilli())
	if err != nil {
		return nil, editError(err)
	}
	if string(after) == before {
		return &aliquotv1.ApplyRulesResponse{Version: version}, nil // it is so already
	}
	comment := req.GetComment()
	if comment == "" {
		comment = e.name
	}
	return s.apply(ctx, cluster.RulesChange{
		YAML: string(after), FileName: "rules", Expected: &version, Author: req.GetAuthor(), Comment: comment,
	})
}

// editError tells a file that cannot be edited from an edit that is wrong.
func editError(err error) error {
	_, invalid := errors.AsType[*rules.Error](err)
	if invalid || errors.Is(err, rules.ErrNotThere) || errors.Is(err, rules.ErrBadEdit) {
		return err
	}
	return fmt.Errorf("%w: %w; change the file and apply it as a whole", errCannotEdit, err)
}

// editOf reads an edit.
func editOf(req *aliquotv1.EditRulesRequest) (edit, error) {
	switch of := req.GetEdit().(type) {
	case *aliquotv1.EditRulesRequest_Block:
		return listEdit("block", of.Block, req.GetAuthor(), rules.Block)
	case *aliquotv1.EditRulesRequest_Allow:
		return listEdit("allow", of.Allow, req.GetAuthor(), rules.Allow)
	case *aliquotv1.EditRulesRequest_Unlist:
		if of.Unlist == "" {
			return edit{}, invalid("unlist: say which pattern")
		}
		return edit{name: fmt.Sprintf("unlist %q", shorten(of.Unlist)), change: func(yaml []byte, nowMS int64) ([]byte, error) {
			return rules.Unlist(yaml, of.Unlist, nowMS)
		}}, nil
	case *aliquotv1.EditRulesRequest_Override:
		return overrideEdit(of.Override, req.GetAuthor())
	}
	return edit{}, invalid("say what to edit: block, allow, unlist, override or tier")
}

func listEdit(verb string, m *aliquotv1.ListEdit, author string, change func([]byte, rules.ListEntry, int64) ([]byte, error)) (edit, error) {
	ttl, err := ttlOf(verb, m.GetTtl())
	if err != nil {
		return edit{}, err
	}
	if m.GetPattern() == "" {
		return edit{}, invalid("%s: say which pattern", verb)
	}
	return edit{name: named(fmt.Sprintf("%s %q", verb, shorten(m.GetPattern())), m.GetReason()), change: func(yaml []byte, nowMS int64) ([]byte, error) {
		return change(yaml, rules.ListEntry{Pattern: m.GetPattern(), Note: note(ttl, m.GetReason(), author, nowMS)}, nowMS)
	}}, nil
}

func overrideEdit(m *aliquotv1.OverrideEdit, author string) (edit, error) {
	ttl, err := ttlOf("override", m.GetTtl())
	if err != nil {
		return edit{}, err
	}
	if m.GetRuleId() == "" || m.GetPattern() == "" {
		return edit{}, invalid("override: say which rule and which pattern")
	}
	of := fmt.Sprintf("override of %q in %s", shorten(m.GetPattern()), shorten(m.GetRuleId()))
	params := paramsOf(m)
	if m.GetRemove() {
		if params != (rules.ParamsText{}) || ttl != 0 || m.GetReason() != "" {
			return edit{}, invalid("override: one that is removed has no limit, ttl or reason")
		}
		return edit{name: "remove the " + of, change: func(yaml []byte, nowMS int64) ([]byte, error) {
			return rules.RemoveOverride(yaml, m.GetRuleId(), m.GetPattern(), nowMS)
		}}, nil
	}
	if params == (rules.ParamsText{}) {
		return edit{}, invalid("override: say capacity, limit, refill_rate or window")
	}
	return edit{name: named("set the "+of, m.GetReason()), change: func(yaml []byte, nowMS int64) ([]byte, error) {
		return rules.SetOverride(yaml, m.GetRuleId(), m.GetPattern(), params, note(ttl, m.GetReason(), author, nowMS), nowMS)
	}}, nil
}

// stated are the numbers of a limit in an edit.
type stated interface {
	GetCapacity() int64
	GetLimit() int64
	GetRefillRate() float64
	GetWindow() *durationpb.Duration
}

func paramsOf(m stated) rules.ParamsText {
	p := rules.ParamsText{Capacity: m.GetCapacity(), Limit: m.GetLimit(), Window: m.GetWindow().AsDuration()}
	if rate := m.GetRefillRate(); rate != 0 {
		p.RefillRate = strconv.FormatFloat(rate, 'f', -1, 64)
	}
	return p
}

// ttlOf is 0 for an entry that holds for good.
func ttlOf(what string, m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return 0, nil
	}
	ttl := m.AsDuration()
	if ttl < minTTL || ttl > maxTTL {
		return 0, invalid("%s: ttl is %s; give %s to %s, or nothing for good", what, ttl, minTTL, maxTTL)
	}
	return ttl, nil
}

func note(ttl time.Duration, reason, by string, nowMS int64) rules.Note {
	n := rules.Note{Reason: reason, By: by}
	if ttl > 0 {
		n.UntilMS = nowMS + ttl.Milliseconds()
	}
	return n
}

// named is what an edit is called where nothing else is said, with its reason.
func named(name, reason string) string {
	if reason == "" {
		return name
	}
	return name + ": " + reason
}
