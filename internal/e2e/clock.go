package e2e

import (
	"time"
)

// Admitted bounds the time at which a store counted a request, in microseconds of the store's clock.
type Admitted struct{ From, To int64 }

// memorySkew bounds how far the clock of a store in memory is from this process's. The daemon sets its clock once, when
// it starts.
const memorySkew = 5 * time.Millisecond

// Counted returns when a store counted a request that was sent at a time and is answered now. A Redis on this machine
// has the same clock.
func (l *Cluster) Counted(sent time.Time) Admitted {
	skew := int64(0)
	if l.Setup.InMemory {
		skew = memorySkew.Microseconds()
	}
	return Admitted{sent.UnixMicro() - skew, time.Now().UnixMicro() + skew}
}
