package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aliquot/cluster"
	clusterstate "aliquot/cluster/state"
	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

const (
	// hopsHeader marks a request that a coordinator has forwarded. One hop is enough to reach the leader;
	// with more a request could circle during an election.
	hopsHeader = "Aliquot-Hops"
	// defaultDeadline is for callers that set no deadline.
	defaultDeadline = 5 * time.Second
	// rulesDeadline is the same for changes of rules. A file of 10,000 rules takes 1.5 s of a core, and ten
	// times that where the core is busy.
	rulesDeadline = 30 * time.Second
)

// forwarder forwards requests to the leader. It is safe for concurrent use.
type forwarder struct {
	node *cluster.Node
	self string // node id
	http *http.Client

	mu   sync.Mutex
	last *peer
}

// peer has the clients of another coordinator's services. A change of the leader's address makes a new
// peer; the HTTP client owns the connections.
type peer struct {
	address string
	aliquotv1connect.BudgetServiceClient
	aliquotv1connect.ClusterServiceClient
	aliquotv1connect.LeaseServiceClient
	aliquotv1connect.RegionServiceClient
	aliquotv1connect.RuleServiceClient
}

func newPeer(client *http.Client, address string) *peer {
	url := rpc.BaseURL(address)
	// Coordinators are close to each other: bytes cost less than gzip.
	limit := connect.WithClientOptions(connect.WithReadMaxBytes(maxAnswerBytes), connect.WithAcceptCompression("gzip", nil, nil))
	return &peer{
		address:              address,
		BudgetServiceClient:  aliquotv1connect.NewBudgetServiceClient(client, url, limit),
		ClusterServiceClient: aliquotv1connect.NewClusterServiceClient(client, url, limit),
		LeaseServiceClient:   aliquotv1connect.NewLeaseServiceClient(client, url, limit),
		RegionServiceClient:  aliquotv1connect.NewRegionServiceClient(client, url, limit),
		RuleServiceClient:    aliquotv1connect.NewRuleServiceClient(client, url, limit),
	}
}

// leader returns the peer that leads, as far as this node knows.
func (f *forwarder) leader() (*peer, error) {
	id, address := f.node.Leader()
	switch {
	case id == f.self:
		return nil, errTakingCharge
	case address == "":
		return nil, errNoLeader
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil || f.last.address != address {
		f.last = newPeer(f.http, address)
	}
	return f.last, nil
}

// toLeader forwards a unary request to the leader with the rest of its deadline, unless it was
// forwarded before. method is a method expression such as (*peer).Hello.
func toLeader[Req, Res any](ctx context.Context, f *forwarder, req *Req,
	method func(*peer, context.Context, *Req) (*Res, error),
) (*Res, error) {
	if forwarded(ctx) {
		return nil, errNoLeader
	}
	leader, err := f.leader()
	if err != nil {
		return nil, err
	}
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set(hopsHeader, "1")
	res, err := method(leader, ctx, req)
	if err != nil {
		return nil, leaderError(leader.address, req, err)
	}
	if err := checkAnswer(leader.address, res); err != nil {
		return nil, err
	}
	return res, nil
}

// checkAnswer refuses an empty answer of a kind that is never empty: it would look like a change that
// was made.
func checkAnswer(address string, res any) error {
	switch res := res.(type) {
	case *aliquotv1.ListBudgetsResponse, *aliquotv1.PlanRulesResponse:
		return nil
	case proto.Message:
		if proto.Size(res) > 0 {
			return nil
		}
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the leader at %s sent an empty answer, which no coordinator does: "+
		"a change may or may not have been made; check which process listens there", address))
}

// forwarded reports whether another coordinator forwarded this request.
func forwarded(ctx context.Context) bool {
	call, ok := connect.CallInfoForHandlerContext(ctx)
	return ok && call.RequestHeader().Get(hopsHeader) != ""
}

// leaderError returns the leader's error with its details and without its headers. If the leader did not answer, the error
// names its address, and says whether req may have changed something.
func leaderError(address string, req any, err error) error {
	code := connect.CodeOf(err)
	wire, ok := errors.AsType[*connect.Error](err)
	switch {
	case ok && connect.IsWireError(err):
		return reworded(wire, wire.Message())
	case code == connect.CodeDeadlineExceeded || code == connect.CodeCanceled:
		return connect.NewError(code, fmt.Errorf("the leader at %s did not answer in time; %s", address, withoutAnswer(req)))
	}
	if rpc.NotSent(err) {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the leader at %s could not be reached: %w; retry", address, err))
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the leader at %s went away before it answered: %w; %s", address, err, withoutAnswer(req)))
}

// withoutAnswer says what became of a request that was sent and not answered.
func withoutAnswer(req any) string {
	switch req.(type) {
	case *aliquotv1.GetBudgetRequest, *aliquotv1.ListBudgetsRequest, *aliquotv1.ListRegionsRequest, *aliquotv1.PlanRulesRequest:
		return "nothing was changed; retry"
	}
	return "a change may or may not have been made"
}

// withDeadline gives a request without a deadline the default one.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return deadlineOr(ctx, defaultDeadline)
}

// deadlineOr gives a request without a deadline this one.
func deadlineOr(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, patience)
}

// ownWriteTimeout bounds how long a follower waits for the log entry of a change that the leader has
// committed. The entry arrives with the next heartbeat unless the node is cut off.
const ownWriteTimeout = 2 * time.Second

// awaitConfig waits until this node has a configuration later than version before, which the leader has
// changed: the next caller of this node should find it here too. A change without effect makes no new
// version, so the wait is short.
func awaitConfig(ctx context.Context, node *cluster.Node, before uint64) {
	awaitState(ctx, node, ownWriteTimeout/4, func(state *clusterstate.State) bool { return state.Ledger.Config.Version > before })
}

// awaitState waits until holds is true of this node's state, so that a caller who changed something
// through this node can read it here. The change is already made: if the node lags, the wait just ends
// after the timeout.
func awaitState(ctx context.Context, node *cluster.Node, timeout time.Duration, holds func(*clusterstate.State) bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		changed := node.Changed()
		done := false
		node.View(func(state *clusterstate.State) { done = holds(state) })
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
