package plants

import "time"

// proofs are bugs in the proof of leadership, of the lines that ship and of the worlds that stand for them: the coordinator's
// loop, its transport, and the coordinators of the simulator and the checker.
func proofs() []Plant {
	const (
		loop      = "coordinator/internal/leader/loop.go"
		hello     = "coordinator/internal/service/lease.go"
		proof     = "cluster/proof.go"
		proofs    = "cluster/raftnet/proofs.go"
		transport = "cluster/raftnet/transport.go"
		world     = "internal/sim/coord_log.go"
		seat      = "internal/sim/check/seat.go"
	)
	lingering := World{Keys: 1, Faults: []string{"leader lingers", "cut from the leader", "coordinator paused", "cut one way"}, Just: true}
	return []Plant{
		{
			Name: "proof-not-asked", Breaks: "a coordinator tells its machine that its leadership is proved, and asks nobody",
			Edits: []Edit{
				{loop, "l.verified <- l.node.VerifyLeader(ctx, l.term)", "l.verified <- ctx.Err()"},
				{world, "if c.dead || !c.ledAt(b.answered) {", "if c.dead {"},
				{seat, "return w.sc.noProof || ", "return !w.sc.noProof || "},
			},
			World: lingering, Scenarios: []string{"deposed-split"},
		},
		{
			Name: "proof-of-an-older-answer", Breaks: "a proof of leadership rests on answers to messages that were sent before it was asked for, as hashicorp/raft's own does",
			Edits: []Edit{
				{proofs, "c.term == term && c.number > mark", "c.term == term && c.number > mark-mark"},
				{world, "if b.sent < asked {", "if b.sent < 0 {"},
				{seat, "return (b.after || w.sc.olderProof) && b.led", "return b.led"},
			},
			World:     World{Regions: 2, Keys: 1, Lease: 3 * time.Second, Faults: []string{"leader lingers", "slow commits", "cut from the leader"}, Just: true},
			Scenarios: []string{"deposed-split"},
		},
		{
			Name: "proof-numbered-late", Breaks: "a message has its number when it is answered, not when it is sent",
			Edits: []Edit{{transport, "t.proofs.confirm(id, req.Term, number)", "t.proofs.confirm(id, req.Term, max(number, t.proofs.mark()))"}},
		},
		{
			Name: "proof-by-raft", Breaks: "the proof of hashicorp/raft is enough",
			Edits: []Edit{{proof, "		if confirmed {", "		if confirmed || term > 0 {"}},
		},
		{
			Name: "proof-without-votes", Breaks: "a server without a vote proves a leadership",
			Edits: []Edit{{proof, "if s.Suffrage != raft.Voter {", "if s.Suffrage != raft.Voter && s.ID == \"\" {"}},
		},
		{
			Name: "proof-by-half", Breaks: "half of the voters prove a leadership",
			Edits: []Edit{{proof, "return agreed > voters/2", "return agreed >= voters/2"}},
		},
		{
			Name: "proof-by-who-leaves", Breaks: "a leader counts its own voice after it was removed from the configuration",
			Edits: []Edit{{proof, "voters, agreed := 0, 0", "voters, agreed := 0, 1"}, {proof, "return id == n.serverID || ", "return id != n.serverID && "}},
		},
		{
			Name: "proof-by-a-later-term", Breaks: "an answer counts whatever term and success it tells of",
			Edits: []Edit{{transport, "if resp.Success && resp.Term == req.Term {", "if resp.Term > 0 {"}},
		},
		{
			Name: "proof-of-another-term", Breaks: "a node that leads in a later term proves that it leads in the earlier one, whose ledger its machine has",
			Edits: []Edit{{proof, "if !n.Leads() || n.raft.CurrentTerm() != term {", "if !n.Leads() {"}},
		},
		{
			Name: "loop-of-any-term", Breaks: "a leader loop is proved by the leadership of its node in any term",
			Edits: []Edit{{loop, "l.node.VerifyLeader(ctx, l.term)", "l.node.VerifyLeader(ctx, l.node.Term())"}},
		},
		{
			Name: "loop-without-proof", Breaks: "a leader loop goes on when the proof of its leadership has failed",
			Edits: []Edit{{loop, "		l.failed = fmt.Errorf(\"proof of leadership: %w\", err)\n		return", "		return"}},
		},
		{
			Name: "told-without-proof", Breaks: "a daemon without a session is told what to serve its floor by without a proof of leadership",
			Edits: []Edit{{hello, "err := loop.VerifyLeader(ctx); err != nil", "err := ctx.Err(); err != nil"}},
		},
	}
}
