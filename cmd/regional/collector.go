package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// leastLive is what at least counts as living, in bytes. The garbage collector runs when the heap has grown by as
	// much. A daemon has 15 MB that live at its start and 80 MB once its memory of the store is full, and 60,000 checks
	// a second leave 200 MB of garbage.
	leastLive = 96 << 20
	// pieceBytes is how much of the ballast goes at once.
	pieceBytes = 4 << 20
	// adjustEvery is how often the ballast is compared with what lives.
	adjustEvery = time.Second
	// roomyLimit is the least GOMEMLIMIT that leaves room for the ballast: it counts there, and so does the garbage.
	roomyLimit = 4 * leastLive
)

// ballast is memory that counts as living and takes no room in RAM, because it is never written. It gives way to what
// really lives, so the collector runs as often in a large heap as in a small one. It never grows: memory that was in use
// would have to be written to be allocated again.
type ballast struct {
	pieces [][]byte
	// from is the number of collections from which on the collector's figures are without the pieces that went last.
	from uint64
}

// newBallast returns an empty ballast if GOGC in the environment sets the collector's pace, or GOMEMLIMIT leaves no room.
func newBallast() *ballast {
	b := &ballast{}
	if os.Getenv("GOGC") != "" || debug.SetMemoryLimit(-1) < roomyLimit {
		return b
	}
	for range leastLive / pieceBytes {
		b.pieces = append(b.pieces, make([]byte, pieceBytes))
	}
	return b
}

// keep lets the ballast give way until ctx ends.
func (b *ballast) keep(ctx context.Context) {
	tick := time.NewTicker(adjustEvery)
	defer tick.Stop()
	found := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"}}
	for len(b.pieces) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			metrics.Read(found)
			b.adjust(found[0].Value.Uint64(), found[1].Value.Uint64())
		}
	}
}

// adjust drops what is above leastLive, if live bytes were found by the latest of so many collections. One that has begun
// may still find the dropped pieces, so it waits for the second.
func (b *ballast) adjust(collections, live uint64) {
	above := int(live/pieceBytes) - leastLive/pieceBytes
	if collections < b.from || above <= 0 {
		return
	}
	n := max(0, len(b.pieces)-above)
	clear(b.pieces[n:])
	b.pieces, b.from = b.pieces[:n], collections+2
}
