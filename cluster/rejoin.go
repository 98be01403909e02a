package cluster

import (
	"context"
	"math/rand/v2"
	"net"
	"strings"
	"time"
)

const (
	// rejoinEvery is how often silent join addresses are tried again. memberlist
	// forgets a node that stayed dead, and two halves of a healed partition would
	// otherwise never meet again.
	rejoinEvery = 2 * time.Second
	// rejoinJitter spreads nodes that were started together.
	rejoinJitter = 500 * time.Millisecond
	// maxResolved bounds the addresses taken from one name.
	maxResolved = 16
)

// rejoin contacts every join address that no live member gossips from, resolving
// names anew each time, until ctx ends.
func (g *gossip) rejoin(ctx context.Context, addresses []string) {
	for {
		for _, address := range addresses {
			g.joinAddress(ctx, address)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rejoinEvery + rand.N(rejoinJitter)):
		}
	}
}

func (g *gossip) joinAddress(ctx context.Context, address string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return // Validate refused it
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		g.complain(address, err)
		return
	}
	for _, ip := range ips[:min(len(ips), maxResolved)] {
		hostPort := net.JoinHostPort(ip, port)
		if ctx.Err() != nil || g.peers.aliveAt(hostPort) {
			continue
		}
		if _, err := g.list.Join([]string{hostPort}); err != nil {
			g.complain(hostPort, err)
		}
	}
}

// complain says once a minute for each address why it cannot be joined. That
// nobody listens there is ordinary while nodes start.
func (g *gossip) complain(address string, err error) {
	if !g.quiet.allow("join "+address, time.Now()) {
		return
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if strings.Contains(text, "refused") && !strings.Contains(text, errOtherCluster.Error()) {
		g.log.Info("join address does not answer yet", "address", address, "error", text)
		return
	}
	g.log.Warn("join address cannot be joined; a closed connection means another cluster label or gossip key",
		"address", address, "error", text)
}
