package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// Term returns the Raft term of this node. A leader reads it before the state that VerifyLeader is to confirm.
func (n *Node) Term() uint64 { return n.raft.CurrentTerm() }

// VerifyLeader returns nil if this node led in the given term at some instant after the call began: a majority of
// the voters answered messages of that term that were sent after it. After any error the node must not act as the
// leader of that term. The wait ends with ctx, or when the leadership ends. Errors: ErrNotLeader; ErrNotProved.
//
// VerifyLeader of hashicorp/raft 1.8.0 (replication.go) is weaker: it accepts answers to heartbeats that were sent
// before the call, answers of servers without a vote, and the vote of a leader that is being removed. It is called
// first, because it sends heartbeats to all servers at once and knows whether this node leads.
func (n *Node) VerifyLeader(ctx context.Context, term uint64) error {
	asked := n.trans.Mark()
	if _, err := wait(ctx, n, n.raft.VerifyLeader); err != nil {
		return n.notProved(err)
	}
	tick := time.NewTicker(answerPoll)
	defer tick.Stop()
	for {
		news := n.trans.Confirmed()
		confirmed := majority(n.configuration(), func(id raft.ServerID) bool {
			return id == n.serverID || n.trans.Confirms(id, term, asked)
		})
		// This node's own vote counts only while it leads in the term, so this is checked last.
		if !n.Leads() || n.raft.CurrentTerm() != term {
			return n.NotLeader()
		}
		if confirmed {
			return nil
		}
		select {
		case <-news:
		case <-tick.C:
		case <-ctx.Done():
			return n.notProved(ctx.Err())
		case <-n.ctx.Done():
			return n.notProved(ErrShutdown)
		}
	}
}

// notProved translates the error of a proof. A proof proposes no change, so none has an unknown outcome.
func (n *Node) notProved(err error) error {
	if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrLeadershipLost) {
		return n.NotLeader()
	}
	return fmt.Errorf("%w: %w", ErrNotProved, err)
}

// majority reports whether most voters of a configuration agree. Servers without a vote do not count.
func majority(c raft.Configuration, agrees func(raft.ServerID) bool) bool {
	voters, agreed := 0, 0
	for _, s := range c.Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if agrees(s.ID) {
			agreed++
		}
	}
	return agreed > voters/2
}
