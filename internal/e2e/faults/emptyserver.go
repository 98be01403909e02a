package faults

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"aliquot/internal/bench/load"
	"aliquot/internal/e2e"
)

// onEmptyServer runs a load for d on a server that decides nothing, in a process beside the cluster. Its latencies are
// those of the machine alone.
func onEmptyServer(ctx context.Context, l *e2e.Cluster, c load.Config, d time.Duration) (*load.Report, error) {
	free, err := e2e.FreePorts(1)
	if err != nil {
		return nil, err
	}
	c.Address, c.Server = free.Next(), load.ServerMeter{}
	p := e2e.NewProcess(l.Dir, "floor", filepath.Join(l.Bin, "aliquot"), "bench", "floor", "--protocol", string(c.Protocol), "--listen", c.Address)
	if err := p.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = p.Kill9() }() // it holds nothing
	err = e2e.Until(ctx, e2e.ReadyWithin, "listening", func() error {
		conn, err := net.DialTimeout("tcp", c.Address, e2e.CallWithin)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return runLoad(ctx, c, d)
}
