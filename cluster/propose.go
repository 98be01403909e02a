package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/state"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

// enqueueTimeout bounds the wait for raft's main goroutine to take a command.
const enqueueTimeout = 5 * time.Second

// Propose commits a command and returns the answer of the state machine. An answer that is an error is returned as
// the error, and nothing has changed then. Other errors: ErrNotLeader; ErrNotProposed if ctx was over before the
// command was proposed; ErrBehind if raft did not take it in time; ErrUnknownOutcome if the command may still come into
// force.
func (n *Node) Propose(ctx context.Context, cmd *raftlogv1.Command) (any, error) {
	data, err := state.EncodeCommand(cmd)
	if err != nil {
		return nil, err
	}
	if !n.Leads() {
		return nil, n.NotLeader()
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotProposed, err)
	}
	start := time.Now()
	future, err := wait(ctx, n, func() raft.ApplyFuture { return n.raft.Apply(data, enqueueTimeout) })
	if err != nil {
		return nil, n.outcome(err)
	}
	n.commits.Add(1)
	n.metrics.observeApply(time.Since(start))
	answer := future.Response()
	if err, refused := answer.(error); refused {
		return nil, err
	}
	return answer, nil
}

// wait runs start, which may block, and waits for the future that it returns, for ctx, or for the end of the node. A
// future may stay without an answer once raft has shut down.
func wait[F raft.Future](ctx context.Context, n *Node, start func() F) (F, error) {
	type outcome struct {
		future F
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		future := start()
		done <- outcome{future, future.Error()}
	}()
	var none F
	select {
	case o := <-done:
		return o.future, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-n.ctx.Done():
		return none, ErrShutdown
	}
}

// translate turns an error of raft into one of this package. If the wait ended after raft got the command, the outcome is unknown.
func (n *Node) translate(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return n.NotLeader()
	case errors.Is(err, raft.ErrEnqueueTimeout): // raft did not get the command
		return fmt.Errorf("%w: %w", ErrBehind, err)
	case errors.Is(err, raft.ErrLeadershipLost),
		errors.Is(err, raft.ErrAbortedByRestore), errors.Is(err, raft.ErrRaftShutdown), errors.Is(err, ErrShutdown),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return fmt.Errorf("cluster: raft: %w", err)
}

// outcome translates the error of a command that was to be handed to raft. After any error except that this node does
// not lead, or that raft did not get the command, an entry may be in the log and be committed later: raft tells a disk's
// error also of an entry that was stored.
func (n *Node) outcome(err error) error {
	if err = n.translate(err); errors.Is(err, ErrUnknownOutcome) || errors.Is(err, ErrBehind) {
		return err
	}
	if _, refused := errors.AsType[ErrNotLeader](err); refused {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// Leads reports whether raft believes that this node leads. It is a hint that saves the work of preparing a
// command.
func (n *Node) Leads() bool { return n.raft.State() == raft.Leader }

// NotLeader returns the error of a node that does not lead.
func (n *Node) NotLeader() error {
	id, address := n.Leader()
	return ErrNotLeader{LeaderID: id, RPCAddress: address}
}

// Barrier waits until this node, as leader, has applied everything that was committed before the call. No error of it
// is ErrUnknownOutcome, because it proposes no change. Errors: ErrNotLeader; ErrNotProposed if ctx was over; ErrBehind.
func (n *Node) Barrier(ctx context.Context) error {
	if !n.Leads() {
		return n.NotLeader()
	}
	_, err := wait(ctx, n, func() raft.Future { return n.raft.Barrier(enqueueTimeout) })
	switch {
	case err == nil:
		n.commits.Add(1)
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost):
		return n.NotLeader()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrNotProposed, err)
	}
	return fmt.Errorf("%w: %w", ErrBehind, err)
}
