package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"aliquot/internal/rpc"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// what the addresses are of, in errors.
const (
	ACoordinator = "a coordinator"
	ARegion      = "a regional daemon"
)

// Coordinator returns the address of a coordinator.
func (g *Globals) Coordinator() string {
	return g.pick(g.choice([]string{AddrVar}, g.at.Coordinators, defaultCoordinator))
}

// Coordinators returns all addresses of coordinators that are named.
func (g *Globals) Coordinators() []string {
	return split(g.choice([]string{AddrVar}, g.at.Coordinators, defaultCoordinator))
}

// Region returns the address of a regional daemon.
func (g *Globals) Region() string {
	return g.pick(g.choice([]string{RegionVar, AddrVar}, g.at.Regions, DefaultRegion))
}

// Ops returns the address of a regional daemon's ops listener.
func (g *Globals) Ops() string { return g.pick(g.choice(nil, g.at.Ops, DefaultOps)) }

// Limiter returns a client of the checks of a region.
func (g *Globals) Limiter() aliquotv1connect.LimiterServiceClient {
	client, base := rpc.ClientOf(g.Region())
	return aliquotv1connect.NewLimiterServiceClient(client, base)
}

// Budgets returns a client of the budgets.
func (g *Globals) Budgets() aliquotv1connect.BudgetServiceClient {
	return aliquotv1connect.NewBudgetServiceClient(rpc.NewHTTPClient(), rpc.BaseURL(g.Coordinator()))
}

// Regions returns a client of the declared regions.
func (g *Globals) Regions() aliquotv1connect.RegionServiceClient {
	return aliquotv1connect.NewRegionServiceClient(rpc.NewHTTPClient(), rpc.BaseURL(g.Coordinator()))
}

// RuleService returns a client of the rules.
func (g *Globals) RuleService() aliquotv1connect.RuleServiceClient {
	return aliquotv1connect.NewRuleServiceClient(rpc.NewHTTPClient(), rpc.BaseURL(g.Coordinator()))
}

// Cluster returns a client of the coordinators' cluster.
func (g *Globals) Cluster() aliquotv1connect.ClusterServiceClient {
	return aliquotv1connect.NewClusterServiceClient(rpc.NewHTTPClient(), rpc.BaseURL(g.Coordinator()))
}

// Explain turns the error of a call to who at address into a sentence that says
// what to do about it.
func (g *Globals) Explain(err error, who, address string) error {
	if err == nil {
		return nil
	}
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Reword(err, "%s at %s: connection refused; start one with 'aliquot dev' or 'make up', or name a running one with --addr", who, address)
	case errors.As(err, &dns):
		return Reword(err, "%s at %s: the name %s does not resolve; check --addr", who, address, dns.Name)
	case !connect.IsWireError(err) && late(err): // of a daemon's answer the text says what became of the request
		return Reword(err, "%s at %s: no answer within %v; is it the right --addr? (--timeout waits longer)", who, address, g.Timeout)
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		return Reword(err, "%s does not serve this (%s); is --addr that of %s?", address, FirstLine(err), who)
	}
	if strings.Contains(err.Error(), "malformed HTTP response") {
		return Reword(err, "%s at %s: what listens there does not speak HTTP/1.1, as the port for gRPC does not; give --addr the port of --listen (7400 of a coordinator, 7500 of a regional daemon)", who, address)
	}
	if remote, ok := errors.AsType[*connect.Error](err); ok {
		return Reword(err, "%s (%s from %s at %s)", remote.Message(), remote.Code(), who, address)
	}
	return fmt.Errorf("%s at %s: %w", who, address, err)
}

// late reports whether an error says that the time for a call was over.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || connect.CodeOf(err) == connect.CodeDeadlineExceeded
}

// ExplainChange is Explain for a call to a coordinator that changes something. If no answer came to a request
// that was sent, it says that the change may have been made; see is the command that shows it.
func (g *Globals) ExplainChange(err error, see string) error {
	out := g.Explain(err, ACoordinator, g.Coordinator())
	if err == nil || connect.IsWireError(err) || !late(err) && connect.CodeOf(err) != connect.CodeUnavailable || rpc.NotSent(err) {
		return out
	}
	return fmt.Errorf("%w; the change may have been made all the same: see '%s' before you send it again", out, see)
}

// FirstLine is an error's first line.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
