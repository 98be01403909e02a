package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"aliquot/cluster"
	"aliquot/coordinator/internal/leader"
	"aliquot/coordinator/internal/service"
	"aliquot/internal/boottime"
	"aliquot/internal/rpc"
	"aliquot/internal/rpc/connections"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

const (
	// drainTimeout bounds the requests in progress when the daemon stops.
	drainTimeout = 5 * time.Second
	// maxRulesFile is the largest rules file, in bytes, that is read.
	maxRulesFile = 4 << 20
)

// ErrRemoved is in the error of a Run that ended because the members of the cluster voted this node
// out.
var ErrRemoved = cluster.ErrRemoved

// Run runs one coordinator. It returns nil after ctx ended and everything was stopped in order, else an
// error. Several coordinators can run in one process.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if cfg.Now == nil {
		cfg.Now = boottime.Now
	}
	d := &daemon{cfg: cfg, log: cfg.Logger.With("node", cfg.NodeID), stopping: make(chan struct{}), broken: make(chan error, 2)}
	if err := d.start(ctx); err != nil {
		return errors.Join(err, d.stop())
	}
	var reason error
	select {
	case <-ctx.Done():
		d.log.Info("stopping")
	case reason = <-d.node.Failed():
	case reason = <-d.broken:
	}
	return errors.Join(reason, d.stop())
}

// daemon is one running coordinator.
type daemon struct {
	cfg Config
	log *slog.Logger

	listener, opsListener *rpc.Listener
	node                  *cluster.Node
	leadership            *leader.Leadership
	index                 service.KeyIndex
	server, ops           *http.Server
	client                *http.Client

	stopping    chan struct{} // closed to end the watches
	broken      chan error    // errors of servers that ended by themselves
	leading     sync.WaitGroup
	stopLeading context.CancelFunc
}

// start starts everything in the order of dependency: ports, the replicated state, the leader's loop,
// the services.
func (d *daemon) start(ctx context.Context) error {
	registry := d.cfg.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := d.listen(); err != nil {
		return err
	}
	d.client = rpc.NewHTTPClient()
	if err := d.startNode(ctx, registry); err != nil {
		return err
	}
	d.leadership = leader.New(d.node, d.cfg.Now, d.log, leader.NewMetrics(registry))
	registry.MustRegister(&collector{node: d.node, leadership: d.leadership, index: &d.index, desc: newDescriptions()})

	connections.Watch(registry, d.listener, d.opsListener)

	// The leader's loop does not end with ctx: stop ends it in its turn.
	loopCtx, revoke := context.WithCancel(context.WithoutCancel(ctx))
	d.stopLeading = revoke
	d.leading.Go(func() { d.leadership.Run(loopCtx) })

	services := service.New(service.Config{
		Node: d.node, NodeID: d.cfg.NodeID, Client: d.client, Leadership: d.leadership,
		Index: &d.index, Registerer: registry, Stopping: d.stopping,
	})
	ready := service.Readiness(d.node)
	d.server = rpc.NewServer(rpc.Browsers(d.cfg.hosts(), services.Handler(ready)), d.log, 0)
	d.ops = rpc.NewServer(service.OpsHandler(registry, ready), d.log, 0)
	go d.serve(d.server, d.listener, "listen")
	go d.serve(d.ops, d.opsListener, "ops-listen")
	d.announce()
	return nil
}

func (d *daemon) listen() (err error) {
	if d.listener, err = rpc.Listen("listen", d.cfg.Listen); err != nil {
		return err
	}
	d.opsListener, err = rpc.Listen("ops-listen", d.cfg.OpsListen)
	return err
}

func (d *daemon) startNode(ctx context.Context, registry prometheus.Registerer) (err error) {
	c := d.cfg.cluster()
	c.Registerer = registry
	c.RPCAddress = d.cfg.advertised(d.listener.Addr())
	c.JoinFunc = d.join
	if d.cfg.RulesFile != "" {
		if c.RulesYAML, err = readRules(d.cfg.RulesFile); err != nil {
			return err
		}
		c.RulesFile = d.cfg.RulesFile
	}
	d.node, err = cluster.Start(ctx, c)
	return err
}

func readRules(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("--rules: %w", err)
	}
	if info.Size() > maxRulesFile {
		return "", fmt.Errorf("--rules %s: %d bytes, at most %d", file, info.Size(), maxRulesFile)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--rules: %w", err)
	}
	return string(data), nil
}

// join asks a coordinator to make this one a member.
func (d *daemon) join(ctx context.Context, rpcAddress, nodeID, instanceID, raftAddress string) error {
	return service.Join(ctx, d.client, rpcAddress, &aliquotv1.JoinRequest{
		NodeId: nodeID, InstanceId: instanceID, RaftAddress: raftAddress,
	})
}

func (d *daemon) serve(s *http.Server, l net.Listener, flag string) {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		d.broken <- fmt.Errorf("--%s %s: the listener failed: %w", flag, l.Addr(), err)
	}
}

func (d *daemon) announce() {
	a := Addresses{
		RPC: d.listener.Addr().String(), Ops: d.opsListener.Addr().String(),
		Raft: d.node.RaftAddress(), Gossip: d.node.GossipAddress(),
	}
	d.log.Info("listening", "rpc", a.RPC, "raft", a.Raft, "gossip", a.Gossip, "ops", a.Ops)
	if d.cfg.OnListening != nil {
		d.cfg.OnListening(a)
	}
}

// stop undoes start in the order that disturbs others least: it refuses new requests, gives up the
// leadership, waits for requests in progress, and leaves the cluster. It also works after a start that
// failed half-way.
func (d *daemon) stop() error {
	close(d.stopping)
	var errs []error
	var drained sync.WaitGroup
	if d.server != nil {
		drained.Go(func() { d.drain(d.server) })
	} else if d.listener != nil {
		errs = append(errs, d.listener.Close())
	}
	if d.stopLeading != nil {
		d.stopLeading()
		d.leading.Wait()
	}
	drained.Wait()
	if d.ops != nil {
		errs = append(errs, d.ops.Close())
	} else if d.opsListener != nil {
		errs = append(errs, d.opsListener.Close())
	}
	if d.node != nil {
		errs = append(errs, d.node.Shutdown())
	}
	if d.client != nil {
		d.client.CloseIdleConnections()
	}
	return errors.Join(errs...)
}

// drain closes the listener at once and waits for requests in progress.
func (d *daemon) drain(s *http.Server) {
	wait := cmp.Or(d.cfg.cutOffAfter, drainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		d.log.Warn("some requests did not end in time and were cut off", "after", wait, "error", err)
		_ = s.Close() // its error would repeat the log line above
	}
}
