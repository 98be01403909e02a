package e2e

import (
	"time"
)

// Admitted is when a store counted a request: between these two, microseconds of the
// store's clock.
type Admitted struct{ From, To int64 }

// memorySkew bounds how far the clock of a store in memory is from this process's: it
// is set once, when its daemon starts, and nobody sets it again.
const memorySkew = 5 * time.Millisecond

// Counted is when a store counted a request that was asked at a time and is answered
// now. A Redis on this machine goes by the same clock.
func (l *Cluster) Counted(asked time.Time) Admitted {
	skew := int64(0)
	if l.Setup.InMemory {
		skew = memorySkew.Microseconds()
	}
	return Admitted{asked.UnixMicro() - skew, time.Now().UnixMicro() + skew}
}
