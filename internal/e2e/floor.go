package e2e

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"aliquot/internal/bench/load"
)

// onFloor is a part of a load on a server that decides nothing, in a process of its own
// beside the installation: what the machine alone makes of that load.
func (l *Cluster) onFloor(ctx context.Context, c load.Config, d time.Duration) (*load.Report, error) {
	free, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	c.Address, c.Server = free.next(), load.ServerMeter{}
	p := newProcess(l.dir, "floor", filepath.Join(l.bin, "aliquot"), "bench", "floor", "--protocol", string(c.Protocol), "--listen", c.Address)
	if err := p.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = p.Kill9() }() // it has nothing to lose
	err = until(ctx, readyWithin, "listening", func() error {
		conn, err := net.DialTimeout("tcp", c.Address, callWithin)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return part(ctx, c, d)
}
