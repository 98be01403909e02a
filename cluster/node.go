package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"aliquot/cluster/gossip"
	"aliquot/cluster/raftlog"
	"aliquot/cluster/raftnet"
	"aliquot/cluster/state"
	"aliquot/internal/ratelog"
	"aliquot/rules"
)

const (
	// trailingLogs and snapshotThreshold keep restarts and catching up short. Log entries are batches: the
	// libraries' defaults of ten thousand entries would be gigabytes.
	trailingLogs      = 256
	snapshotThreshold = 256
	snapshotInterval  = 30 * time.Second
	snapshotsRetained = 2
	// walSegmentBytes is the size of three of the largest entries. Old segments are deleted as a whole.
	walSegmentBytes = 16 << 20
)

// newLimiter returns the bound of a node's warnings: one a minute for each kind, so that a lasting fault stays
// visible, and 256 a minute in all, so that connections from many addresses do not fill the log.
func newLimiter() *ratelog.Limiter { return &ratelog.Limiter{Every: time.Minute, PerMinute: 256} }

// Node is one member of the replicated cluster, or is on its way to become one. All methods are safe for concurrent
// use. Make it with Start.
type Node struct {
	cfg  Config
	log  *slog.Logger
	dir  *dataDir // after Start its identity belongs to keepMembership alone
	fsm  *fsm
	raft *raft.Raft
	// running is raft as soon as it runs: messages arrive before Start returns.
	running atomic.Pointer[raft.Raft]
	logs    *raftlog.Log // raft's log, and its small durable values
	trans   *raftnet.Transport
	layer   *raftnet.Layer
	gossip  *gossip.Gossip

	raftAddr  string
	instance  string
	serverID  raft.ServerID
	cluster   string // the id of the cluster that node.json had at the start
	leaderCh  chan bool
	joining   chan struct{}   // one slot: one change of members at a time
	removed   []raft.ServerID // what RemoveMember removed here; belongs to who holds joining
	commits   atomic.Uint64   // commands and barriers this node saw committed as leader
	caughtUp  atomic.Uint64   // the latest term in which this node, as leader, applied all that earlier leaders committed
	metrics   *metrics
	limiter   *ratelog.Limiter // of warnings
	failed    chan error
	failOnce  sync.Once
	ctx       context.Context // ends at Shutdown
	cancel    context.CancelFunc
	loops     sync.WaitGroup
	shutdown  sync.Once
	shutError error
}

// Start starts a node and returns at once. The node becomes a member in the background. An error names the flag or
// file at fault, and leaves nothing running. ctx ends only the start; Shutdown ends the node.
func Start(ctx context.Context, c Config) (*Node, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: c, log: c.Logger.With("node", c.NodeID), fsm: newFSM(), limiter: newLimiter(),
		leaderCh: make(chan bool, 1), joining: make(chan struct{}, 1), failed: make(chan error, 1),
	}
	n.cfg.Logger = n.log
	// The node outlives the call that starts it.
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := n.start(); err != nil {
		return nil, errors.Join(err, n.Shutdown())
	}
	return n, nil
}

// start creates the parts in order of dependency.
func (n *Node) start() (err error) {
	if n.dir, err = openDataDir(n.cfg.DataDir, n.cfg.NodeID); err != nil {
		return err
	}
	if names := n.dir.readableByOthers(); names != nil {
		n.log.Warn("others on this machine can read the data directory, and with it the log and the secret that keys are hashed with",
			"names", names, "what_to_do", "chmod -R o-rwx "+n.cfg.DataDir)
	}
	n.instance, n.serverID, n.cluster = n.dir.id.InstanceID, n.dir.id.serverID(), n.dir.id.ClusterID
	snapshots, fresh, err := n.openStores()
	if err != nil {
		return err
	}
	if err := n.checkFirstBoot(fresh); err != nil {
		return err
	}
	n.metrics = newMetrics(n.cfg.Registerer)
	if err := n.listenRaft(); err != nil {
		return err
	}
	notify := make(chan bool, 1)
	metered := meteredSnapshots{snapshots, n.metrics}
	if err := raftlog.WithoutPanic(func() (err error) {
		n.raft, err = raft.NewRaft(n.raftConfig(notify), n.fsm, n.logs, n.logs, metered, n.trans)
		return err
	}); n.fsm.refusal != nil {
		return fmt.Errorf("--data-dir: the latest snapshot in %s: %w: start the version that wrote it, or a later one", n.dir.path, n.fsm.refusal)
	} else if err != nil {
		return raftlog.Damaged("what raft keeps", n.dir.path, err)
	}
	n.running.Store(n.raft)
	n.loops.Go(func() { n.trans.Serve(n.ctx) })
	key, err := loadGossipKey(n.cfg.GossipKeyFile)
	if err != nil {
		return err
	}
	if n.gossip, err = gossip.Start(gossip.Config{
		Listen: n.cfg.GossipListen, AdvertiseHost: n.cfg.AdvertiseHost, Label: n.cfg.Label, Key: key, CIDRs: n.cfg.GossipCIDRs,
		Logger: n.log, Allow: n.limiter.Allow,
	}, n.ownMeta("")); err != nil {
		return err
	}
	if err := n.metrics.register(n); err != nil {
		return err
	}
	n.loops.Go(func() { n.watchLeadership(notify) })
	n.loops.Go(func() { n.gossip.Rejoin(n.ctx, n.cfg.Join) })
	n.loops.Go(n.keepMembership)
	n.log.Info("coordinator node started", "server", string(n.serverID), "raft", n.raftAddr, "gossip", n.gossip.Address())
	return nil
}

// openStores opens the log and the snapshots. fresh means that neither has any contents.
func (n *Node) openStores() (snapshots raft.SnapshotStore, fresh bool, err error) {
	path, err := n.dir.sub("wal")
	if err != nil {
		return nil, false, err
	}
	if n.logs, err = raftlog.Open(path, walSegmentBytes, newHclog(n.log, "raft-wal"), n.fail); err != nil {
		return nil, false, err
	}
	snapshots, err = raftlog.OpenSnapshots(n.dir.path, snapshotsRetained, newHclog(n.log, "raft-snapshot"), n.logs)
	if err != nil {
		return nil, false, err
	}
	if err := n.logs.CheckWhole(n.dir.id.Listed); err != nil {
		return nil, false, err
	}
	if forgot, err := n.logs.ForgetUnfinishedBootstrap(n.dir.id.Listed); err != nil {
		return nil, false, fmt.Errorf("--data-dir: %w", err)
	} else if forgot {
		n.log.Info("this node's first start was interrupted; it begins again")
	}
	existing, err := raft.HasExistingState(n.logs, n.logs, snapshots)
	if err != nil {
		return nil, false, fmt.Errorf("--data-dir: %w", err)
	}
	return snapshots, !existing, nil
}

// checkFirstBoot refuses a new node that would wait forever. It logs what is strange in the first rules. Rules that
// deny every request are not refused: the rules of a lost cluster, which allowed them, must come into force again.
func (n *Node) checkFirstBoot(fresh bool) error {
	if !fresh {
		if len(n.cfg.Regions) > 0 || n.cfg.RulesYAML != "" {
			n.log.Info("--regions and --rules matter at a cluster's first boot only; the state on disk is in force")
		}
		return nil
	}
	switch {
	case len(n.cfg.Join) > 0:
		return nil
	case n.cfg.BootstrapExpect == 0:
		return errors.New("--bootstrap-expect 0 and no --join: a node without state must know whom to join or how many to bootstrap with")
	case len(n.cfg.Regions) == 0:
		return errors.New("--regions is empty: a new cluster must declare the regions that share its limits")
	}
	if n.cfg.RulesYAML == "" {
		return nil
	}
	_, warnings, err := rules.Parse(n.cfg.RulesFile, []byte(n.cfg.RulesYAML))
	for _, w := range warnings {
		n.log.Warn("--rules: "+w.String(), "file", n.cfg.RulesFile)
	}
	return err
}

func (n *Node) listenRaft() error {
	listener, err := net.Listen("tcp", n.cfg.RaftListen)
	if err != nil {
		return fmt.Errorf("--raft-listen %s: %w: choose a free address", n.cfg.RaftListen, err)
	}
	n.raftAddr = listener.Addr().String()
	if n.cfg.AdvertiseHost != "" {
		_, port, err := net.SplitHostPort(n.raftAddr)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		n.raftAddr = net.JoinHostPort(n.cfg.AdvertiseHost, port)
	}
	n.layer = raftnet.NewLayer(listener, raftnet.Config{
		Self: n.serverID, Advertise: n.raftAddr, Cluster: n.clusterID,
		Identify: func() ([]byte, error) { return n.identify().Encode() },
		Logger:   n.log.With("component", "raft-net"), Allow: n.limiter.Allow, Refused: n.refused,
	})
	n.trans = raftnet.NewTransport(n.layer, n.newGuard(), newHclog(n.log, "raft-net"))
	return nil
}

// newGuard returns this node's guard. It reads the term from raft once raft runs, and from the disk before.
func (n *Node) newGuard() *raftnet.Guard {
	term := func() uint64 {
		if r := n.running.Load(); r != nil {
			return r.CurrentTerm()
		}
		term, err := n.logs.Term()
		if err != nil {
			n.log.Error("cannot read the term", "error", err)
		}
		return term
	}
	applied := func() uint64 {
		if r := n.running.Load(); r != nil {
			return r.AppliedIndex()
		}
		return 0
	}
	return raftnet.NewGuard(term, applied, n.clusterID, n.refused)
}

// refused counts and logs a Raft message that was refused.
func (n *Node) refused(reason string, err error) {
	n.metrics.countRefused(reason)
	if n.limiter.Allow("raft refused "+reason, time.Now()) {
		n.log.Error("a Raft message was refused", "reason", reason, "error", err)
	}
}

func (n *Node) raftConfig(notify chan<- bool) *raft.Config {
	unit := n.cfg.electionTimeout()
	rc := raft.DefaultConfig()
	rc.LocalID = n.serverID
	rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = unit, unit, unit/2
	rc.TrailingLogs, rc.SnapshotThreshold, rc.SnapshotInterval = trailingLogs, snapshotThreshold, snapshotInterval
	rc.MaxAppendEntries = raftnet.MaxAppendEntries
	rc.ShutdownOnRemove = true
	rc.NoLegacyTelemetry = true
	rc.NotifyCh = notify // drained by watchLeadership: raft blocks on it
	rc.Logger = newHclog(n.log, "raft").bounded(n.limiter.Allow)
	return rc
}

// Shutdown ends the node: it leaves gossip, stops Raft, closes the log and unlocks the data directory. It does not
// transfer leadership (hashicorp/raft issue 696); the others elect a leader within a few election timeouts. A
// second call returns the result of the first.
func (n *Node) Shutdown() error {
	n.shutdown.Do(func() { n.shutError = n.stop() })
	return n.shutError
}

func (n *Node) stop() error {
	n.cancel()
	n.loops.Wait()
	var errs []error
	n.metrics.unregister()
	var stopped raft.Future
	if n.raft != nil {
		stopped = n.raft.Shutdown()
	}
	if n.trans != nil {
		errs = append(errs, n.trans.Close()) // raft waits for the exchanges under way, which end here
	}
	if stopped != nil {
		errs = append(errs, stopped.Error(), n.logs.NoteEnd())
	}
	if n.gossip != nil {
		errs = append(errs, n.gossip.Stop())
	}
	if n.logs != nil {
		errs = append(errs, n.logs.Close())
	}
	if n.dir != nil {
		errs = append(errs, n.dir.close())
	}
	return errors.Join(errs...)
}

// View runs read with the replicated state of this node, locked for reading. read must be quick, change nothing and
// keep no reference into the state.
func (n *Node) View(read func(*state.State)) { n.fsm.View(read) }

// Changed returns a channel that closes at the next change of the state. Take it before reading the state, so that
// no change is missed.
func (n *Node) Changed() <-chan struct{} { return n.fsm.Changed() }

// Failed delivers once why this node can no longer work. The process should then exit with that error.
func (n *Node) Failed() <-chan error { return n.failed }

func (n *Node) fail(err error) {
	n.failOnce.Do(func() {
		n.log.Error("this node cannot go on", "error", err)
		n.failed <- err
	})
}

// NodeID returns the configured id.
func (n *Node) NodeID() string { return n.cfg.NodeID }

// InstanceID returns the id of the data directory. Each new data directory of a node has another one.
func (n *Node) InstanceID() string { return n.instance }

// RaftAddress returns the address at which other members reach this node's Raft, host:port.
func (n *Node) RaftAddress() string { return n.raftAddr }

// GossipAddress returns the address at which others reach this node's gossip, ip:port.
func (n *Node) GossipAddress() string { return n.gossip.Address() }
