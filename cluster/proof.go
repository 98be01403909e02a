package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// Term returns the Raft term of this node. A leader that is to be proved reads it before it
// reads the state that it goes by.
func (n *Node) Term() uint64 { return n.raft.CurrentTerm() }

// VerifyLeader returns nil if this node led in the given term at an instant after the call began: a majority of the
// voters answered messages of that term that were sent after it. Any other result means that the node must not act as
// the leader of that term. The wait ends with ctx, or when the leadership does.
//
// hashicorp/raft's own VerifyLeader is weaker (1.8.0, replication.go): the answer to a heartbeat that was sent before the
// call satisfies it, and so does one of a server without a vote, or the voice of a leader that is being removed. It is
// asked first, for it sends heartbeats to all servers at once and knows whether this node leads.
func (n *Node) VerifyLeader(ctx context.Context, term uint64) error {
	asked := n.trans.Mark()
	if _, err := wait(ctx, n, n.raft.VerifyLeader); err != nil {
		return n.explain(err)
	}
	tick := time.NewTicker(hearEvery)
	defer tick.Stop()
	for {
		news := n.trans.Confirmed()
		confirmed := majority(n.configuration(), func(id raft.ServerID) bool {
			return id == n.serverID || n.trans.Confirms(id, term, asked)
		})
		// This node's own voice counts only while it leads in the term, so that is looked at last.
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
			return n.explain(ctx.Err())
		case <-n.ctx.Done():
			return ErrShutdown
		}
	}
}

// majority reports whether most of the voters of a configuration agree; servers without a vote do not count.
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
