package raftnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"aliquot/cluster/msgpack"
	"aliquot/cluster/state"
)

const (
	// maxTermStep is the most by which one message may raise the term of a node. Each election raises it by one and
	// takes a second.
	maxTermStep = 1_000_000
	// maxFirstTerm is the highest term that a node without a term accepts from its first contact: a cluster that
	// elects every second gets there after 34,000 years. Later bounds are relative to it.
	maxFirstTerm = 1 << 40
	// maxIndex is above every index that a log can reach.
	maxIndex = 1 << 62
)

// Reasons for which a Guard refuses a message; see aliquot_raft_refused_total.
const (
	RefusedTerm     = "term"
	RefusedTransfer = "transfer"
	RefusedEntry    = "entry"
	RefusedSnapshot = "snapshot"
	RefusedKind     = "kind"
)

// RefusedReasons are all reasons for which a Guard refuses a message.
var RefusedReasons = [...]string{RefusedTerm, RefusedTransfer, RefusedEntry, RefusedSnapshot, RefusedKind}

var errTransfer = errors.New("it transfers the leadership, which no version of this product does")

// Guard checks the messages of other servers before hashicorp/raft handles them, and their answers before it reads
// them. The library trusts its peers: it accepts any term, panics over an entry or a configuration that it cannot
// decode, and makes a snapshot the latest on disk before it reads it. Make it with NewGuard.
type Guard struct {
	term    func() uint64 // of this node
	applied func() uint64 // the last index that its state machine has
	cluster func() string // the id of its cluster, empty before it knows
	refused func(reason string, err error)

	out       chan raft.RPC
	receiving chan struct{} // one slot: a snapshot is in memory until it is verified
}

// NewGuard returns the guard of a node. term returns the node's term, applied the last index that its state machine
// has, and cluster the id of its cluster, empty while it is unknown. refused is called for each refusal with one of
// RefusedReasons. All four are called from any goroutine.
func NewGuard(term, applied func() uint64, cluster func() string, refused func(reason string, err error)) *Guard {
	return &Guard{term: term, applied: applied, cluster: cluster, refused: refused,
		out: make(chan raft.RPC), receiving: make(chan struct{}, 1)}
}

// run passes on the messages that the guard accepts, until ctx ends.
func (g *Guard) run(ctx context.Context, in <-chan raft.RPC) {
	for {
		select {
		case <-ctx.Done():
			return
		case rpc := <-in:
			reason, err := g.check(rpc.Command)
			switch {
			case err != nil:
				g.refuse(rpc, reason, err)
			case rpc.Reader != nil:
				// It ends with its connection, if not before.
				go g.receive(ctx, rpc)
			default:
				g.pass(ctx, rpc)
			}
		}
	}
}

func (g *Guard) pass(ctx context.Context, rpc raft.RPC) {
	select {
	case g.out <- rpc:
	case <-ctx.Done():
	}
}

// refuse answers with an error. It reads the rest of a refused snapshot first, because the answer must follow it. A
// snapshot that says it is larger than any is not read: what follows then is no message, and the connection ends.
func (g *Guard) refuse(rpc raft.RPC, reason string, err error) {
	g.refused(reason, fmt.Errorf("%w%s", err, sender(rpc.Command)))
	head, _ := rpc.Command.(*raft.InstallSnapshotRequest)
	if rpc.Reader == nil || head != nil && head.Size > state.MaxSnapshotBytes {
		rpc.Respond(emptyAnswer(rpc.Command), err)
		return
	}
	go func() {
		_, errRead := io.Copy(io.Discard, rpc.Reader)
		rpc.Respond(emptyAnswer(rpc.Command), errors.Join(err, errRead))
	}()
}

// sender returns who the message claims to be from.
func sender(command any) string {
	h, ok := command.(raft.WithRPCHeader)
	if !ok {
		return ""
	}
	return fmt.Sprintf(" (the sender calls itself %q at %q)", h.GetRPCHeader().ID, h.GetRPCHeader().Addr)
}

func emptyAnswer(command any) any {
	switch command.(type) {
	case *raft.AppendEntriesRequest:
		return &raft.AppendEntriesResponse{}
	case *raft.RequestVoteRequest:
		return &raft.RequestVoteResponse{}
	case *raft.RequestPreVoteRequest:
		return &raft.RequestPreVoteResponse{}
	case *raft.InstallSnapshotRequest:
		return &raft.InstallSnapshotResponse{}
	}
	return &raft.TimeoutNowResponse{}
}

// check returns the reason to refuse a message, and nil to accept it. The data of a snapshot are checked later, in
// receive.
func (g *Guard) check(command any) (reason string, err error) {
	switch req := command.(type) {
	case *raft.AppendEntriesRequest:
		if err := g.checkTerm(req.Term); err != nil {
			return RefusedTerm, err
		}
		return RefusedEntry, checkEntries(req)
	case *raft.RequestVoteRequest:
		if req.LeadershipTransfer {
			return RefusedTransfer, errTransfer
		}
		return RefusedTerm, g.checkTerm(req.Term)
	case *raft.RequestPreVoteRequest:
		return RefusedTerm, g.checkTerm(req.Term)
	case *raft.InstallSnapshotRequest:
		if err := g.checkTerm(req.Term); err != nil {
			return RefusedTerm, err
		}
		return RefusedSnapshot, g.checkSnapshotHead(req)
	case *raft.TimeoutNowRequest:
		return RefusedTransfer, errTransfer
	}
	return RefusedKind, fmt.Errorf("a message of an unknown kind, %T", command)
}

func (g *Guard) checkTerm(term uint64) error {
	own := g.term()
	bound := own + maxTermStep
	if own == 0 {
		bound = maxFirstTerm
	}
	if term > bound {
		return fmt.Errorf("term %d, and this node is in term %d: no election leads there", term, own)
	}
	return nil
}

// checkAnswer returns an error for an answer with a term that Raft must not accept. A nil guard accepts every
// answer.
func (g *Guard) checkAnswer(term uint64, id raft.ServerID) error {
	if g == nil {
		return nil
	}
	err := g.checkTerm(term)
	if err != nil {
		err = fmt.Errorf("the answer of %s: %w", id, err)
		g.refused(RefusedTerm, err)
	}
	return err
}

// checkEntries decodes each entry as Raft and the state machine will do: an entry that they cannot read would end
// the process.
func checkEntries(req *raft.AppendEntriesRequest) error {
	if req.PrevLogEntry > maxIndex {
		return fmt.Errorf("entries after index %d", req.PrevLogEntry)
	}
	for i, e := range req.Entries {
		index := req.PrevLogEntry + 1 + uint64(i)
		switch {
		case e == nil:
			return fmt.Errorf("log entry %d is empty", index)
		case e.Index != index:
			return fmt.Errorf("log entry %d comes where %d is next", e.Index, index)
		case e.Term > req.Term:
			return fmt.Errorf("log entry %d is of term %d, and its leader of term %d", e.Index, e.Term, req.Term)
		}
		if err := checkEntry(e); err != nil {
			return fmt.Errorf("log entry %d of term %d cannot be read: %w; if its leader is of a later version, upgrade this node", e.Index, e.Term, err)
		}
	}
	return nil
}

func checkEntry(e *raft.Log) error {
	switch e.Type {
	case raft.LogNoop, raft.LogBarrier:
		return nil
	case raft.LogConfiguration:
		return checkServers(e.Data)
	case raft.LogCommand:
		_, err := state.DecodeCommand(e.Data)
		return err
	}
	return fmt.Errorf("type %d is unknown", e.Type)
}

// checkServers refuses a configuration that Raft cannot decode, or that no leader would make.
func checkServers(data []byte) error {
	if err := msgpack.Check(data); err != nil {
		return err
	}
	var c raft.Configuration
	if err := decodeServers(data, &c); err != nil {
		return err
	}
	ids, addresses := map[raft.ServerID]bool{}, map[raft.ServerAddress]bool{}
	voters := 0
	for _, s := range c.Servers {
		if s.ID == "" || s.Address == "" || ids[s.ID] || addresses[s.Address] {
			return fmt.Errorf("a configuration with server %q at %q, which is empty or there twice", s.ID, s.Address)
		}
		ids[s.ID], addresses[s.Address] = true, true
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	if voters == 0 || len(c.Servers) > state.MaxServers {
		return fmt.Errorf("a configuration of %d servers, %d of them voters", len(c.Servers), voters)
	}
	return nil
}

// decodeServers returns a panic of the library as an error.
func decodeServers(data []byte, c *raft.Configuration) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
	}()
	*c = raft.DecodeConfiguration(data)
	return nil
}

func (g *Guard) checkSnapshotHead(req *raft.InstallSnapshotRequest) error {
	switch {
	case req.SnapshotVersion != raft.SnapshotVersionMax:
		return fmt.Errorf("%w: version %d of the library's format", state.ErrBadSnapshot, req.SnapshotVersion)
	case req.Size <= 0 || req.Size > state.MaxSnapshotBytes:
		return fmt.Errorf("%w: %d bytes", state.ErrBadSnapshot, req.Size)
	case req.LastLogIndex > maxIndex || req.LastLogTerm > req.Term || req.ConfigurationIndex > req.LastLogIndex:
		return fmt.Errorf("%w: it ends with entry %d of term %d, in term %d", state.ErrBadSnapshot, req.LastLogIndex, req.LastLogTerm, req.Term)
	case req.LastLogIndex < g.applied():
		return fmt.Errorf("%w: it ends with entry %d, and this node has applied entry %d", state.ErrBadSnapshot, req.LastLogIndex, g.applied())
	}
	if err := checkServers(req.Configuration); err != nil {
		return fmt.Errorf("%w: %w", state.ErrBadSnapshot, err)
	}
	return nil
}

// receive reads and decodes a whole snapshot before it passes it to Raft. The library would first make it the
// latest on disk, and could never start again from a damaged one. Raft's main goroutine does not wait for the
// sender meanwhile.
func (g *Guard) receive(ctx context.Context, rpc raft.RPC) {
	req := rpc.Command.(*raft.InstallSnapshotRequest)
	select {
	case g.receiving <- struct{}{}:
		defer func() { <-g.receiving }()
	default:
		g.refuse(rpc, RefusedSnapshot, errors.New("another snapshot is being received"))
		return
	}
	data, err := io.ReadAll(rpc.Reader)
	if err == nil {
		err = g.checkSnapshot(data, req)
	}
	if err != nil {
		g.refuse(rpc, RefusedSnapshot, err)
		return
	}
	rpc.Reader = bytes.NewReader(data)
	g.pass(ctx, rpc)
}

func (g *Guard) checkSnapshot(data []byte, req *raft.InstallSnapshotRequest) error {
	if int64(len(data)) != req.Size {
		return fmt.Errorf("%w: %d of %d bytes came", state.ErrBadSnapshot, len(data), req.Size)
	}
	s, err := state.ReadSnapshot(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if own := g.cluster(); own != "" && s.ClusterID != own {
		return fmt.Errorf("%w: it is of cluster %q, this node of %s", state.ErrBadSnapshot, s.ClusterID, own)
	}
	if s.AppliedIndex > req.LastLogIndex {
		return fmt.Errorf("%w: its state is of entry %d, and it ends with entry %d", state.ErrBadSnapshot, s.AppliedIndex, req.LastLogIndex)
	}
	return nil
}

// guardedPipeline checks the answers on a pipeline before Raft reads them.
type guardedPipeline struct {
	raft.AppendPipeline
	guard  *Guard
	server raft.ServerID
	out    chan raft.AppendFuture
	done   context.Context
	end    context.CancelFunc
}

func newGuardedPipeline(p raft.AppendPipeline, g *Guard, server raft.ServerID) *guardedPipeline {
	out := &guardedPipeline{AppendPipeline: p, guard: g, server: server, out: make(chan raft.AppendFuture)}
	out.done, out.end = context.WithCancel(context.Background())
	go out.run()
	return out
}

func (p *guardedPipeline) run() {
	for {
		select {
		case <-p.done.Done():
			return
		case answer := <-p.AppendPipeline.Consumer():
			if resp := answer.Response(); p.guard.checkAnswer(resp.Term, p.server) != nil {
				*resp = raft.AppendEntriesResponse{} // no success: Raft leaves the pipeline
			}
			select {
			case p.out <- answer:
			case <-p.done.Done():
				return
			}
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (p *guardedPipeline) Consumer() <-chan raft.AppendFuture { return p.out }

// Close implements raft.AppendPipeline.
func (p *guardedPipeline) Close() error {
	p.end()
	return p.AppendPipeline.Close()
}
