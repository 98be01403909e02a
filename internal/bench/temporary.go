package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/rules"
)

const (
	// temporaryAuthor names the changes in the rules' history.
	temporaryAuthor = "aliquot bench rotate --compare"
	// restoreWithin bounds the way back, a change of leader included.
	restoreWithin = 30 * time.Second
	// retryRules spaces attempts while no leader answers.
	retryRules = 200 * time.Millisecond
)

// errRulesChanged means that another client changed the rules, and that the
// temporary ones were no longer among them.
var errRulesChanged = errors.New("the rules were changed by another client during the comparison, who removed the temporary ones; its figures mean nothing, run it again")

// temporary is rules that were put beside those in force and have to go again. One
// goroutine uses it.
type temporary struct {
	service  aliquotv1connect.RuleServiceClient
	at       string // the coordinator asked
	run      string // the comparison's name, at the end of the rules' ids
	original string
	before   uint64 // the version that original is
	inserted string // empty while nothing can have been added
	version  uint64 // with the temporary rules; 0 until the answer came
}

// readRules reads the rules in force, to which nothing was added yet.
func readRules(ctx context.Context, coordinator, run string) (*temporary, error) {
	t := &temporary{at: coordinator, run: run, service: aliquotv1connect.NewRuleServiceClient(rpc.NewHTTPClient(), rpc.BaseURL(coordinator))}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	inForce, err := t.service.GetRules(ctx, &aliquotv1.GetRulesRequest{})
	if err != nil {
		return nil, fmt.Errorf("rules in force from coordinator %s: %w", coordinator, err)
	}
	t.original, t.before = inForce.GetYaml(), inForce.GetVersion()
	return t, nil
}

// add puts the rules, each on one line of YAML, in force. Also after an error
// remove must be called: the change may have been made and its answer lost.
func (t *temporary) add(ctx context.Context, items []string) error {
	changed, inserted, err := insertRules(t.original, items)
	if err != nil {
		return err
	}
	if _, _, err := rules.Parse("rules", []byte(changed)); err != nil {
		return fmt.Errorf("the temporary rules do not fit beside those in force: %w", err)
	}
	t.inserted = inserted
	// A call that the caller gives up half-way may still change the rules, after
	// remove has looked for them.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	t.version, err = t.apply(ctx, changed, t.before)
	if code := connect.CodeOf(err); code == connect.CodeFailedPrecondition || code == connect.CodeInvalidArgument {
		t.inserted = "" // refused: there is nothing to take out
	}
	return err
}

func (t *temporary) apply(ctx context.Context, yaml string, expected uint64) (uint64, error) {
	answer, err := t.service.ApplyRules(ctx, &aliquotv1.ApplyRulesRequest{Yaml: yaml, ExpectedVersion: &expected, Author: temporaryAuthor})
	if err != nil {
		return 0, fmt.Errorf("apply rules at coordinator %s: %w", t.at, err)
	}
	return answer.GetVersion(), nil
}

// remove takes the temporary rules out, also when ctx has ended. If nobody else
// changed the rules they are afterwards what they were, to the byte; else only what
// was put in is taken out. It returns errRulesChanged if another client did that.
func (t *temporary) remove(ctx context.Context) error {
	if t.inserted == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreWithin)
	defer cancel()
	for {
		done, err := t.tryRemove(ctx)
		if done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", t.byHand(), err)
		case <-time.After(retryRules):
		}
	}
}

// tryRemove makes one attempt; it is not done after an error that may pass.
func (t *temporary) tryRemove(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	inForce, err := t.service.GetRules(ctx, &aliquotv1.GetRulesRequest{})
	switch {
	case err != nil:
		return false, err
	case inForce.GetVersion() < t.version:
		return false, fmt.Errorf("coordinator %s lags behind", t.at)
	}
	text, found := t.without(inForce.GetYaml())
	switch {
	case !found && strings.Contains(inForce.GetYaml(), t.run):
		return true, fmt.Errorf("%w: another client wrote them again", t.byHand())
	case !found && t.version != 0:
		return true, errRulesChanged
	}
	// Without an answer to add, even unchanged rules are applied once more: its call
	// expects the version of before, and can no longer succeed afterwards.
	_, err = t.apply(ctx, text, inForce.GetVersion())
	if connect.CodeOf(err) == connect.CodeInvalidArgument {
		return true, fmt.Errorf("%w: %w", t.byHand(), err)
	}
	return err == nil, err
}

// byHand says what to do when the temporary rules could not be taken out.
func (t *temporary) byHand() error {
	return fmt.Errorf("the temporary rules are still in force; take out those whose id begins with %q and ends with %q, with `aliquot rules show` and `aliquot rules apply`",
		temporaryPrefix, t.run)
}

// without is a version of the rules without the temporary ones.
func (t *temporary) without(yaml string) (text string, found bool) {
	if text, found = withoutInserted(yaml, t.inserted); text == "" {
		return "rules: []\n", found // no rules were ever applied; a file must say so
	}
	return text, found
}
