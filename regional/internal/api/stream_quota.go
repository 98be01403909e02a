package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"aliquot/internal/ratelog"
	"aliquot/regional/internal/telemetry"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// streamMemory is how much memory the messages under way of all streams together may use, with
	// their answers: eight of the largest messages, or over a hundred batches of a thousand checks.
	streamMemory = 64 << 20
	// answerRoom is the memory of a request, in addition to its own bytes, until its answer has
	// left. It is more than an answer with two limits.
	answerRoom = 512
	// quotaRounds times unreadFor is how long a message waits for room.
	quotaRounds = 5
	// unreadFor is how long an answer may take to leave while other messages wait for room.
	unreadFor = time.Second
)

var (
	// errUnread ends a stream whose client does not read while other streams need room.
	errUnread = connect.NewError(connect.CodeResourceExhausted, errors.New(
		"the answers of this stream were not read while other streams waited for memory; read answers as they come, and open another stream"))
	// errNoRoom ends a stream whose message found no room.
	errNoRoom = connect.NewError(connect.CodeResourceExhausted, fmt.Errorf(
		"the messages of all streams together take %d MiB already; send smaller ones, and wait for answers before sending more", streamMemory>>20))
)

// memoryQuota bounds the memory of all streams together. Without it each stream could have 32 of the
// largest messages here for as long as its client does not read the answers. When the quota is used up,
// streams whose clients do not read are ended, and the others wait. Safe for concurrent use.
type memoryQuota struct {
	max     int64
	metrics *telemetry.Metrics
	log     *slog.Logger
	lines   ratelog.Limiter

	mu        sync.Mutex
	used      int64
	streams   map[*stream]struct{}
	waiting   int
	freed     chan struct{} // closed when there is room for one of the waiting messages
	min       int64         // no message that waits for freed needs less
	observing bool          // one waiting message observes which streams are not read
}

func newMemoryQuota(most int64, m *telemetry.Metrics, log *slog.Logger) *memoryQuota {
	return &memoryQuota{max: most, metrics: m, log: log, streams: map[*stream]struct{}{}, freed: make(chan struct{}), min: most}
}

// inUse returns how many bytes are taken.
func (r *memoryQuota) inUse() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// open registers a stream, which the quota may then end until close.
func (r *memoryQuota) open(s *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams[s] = struct{}{}
}

func (r *memoryQuota) close(s *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, s)
}

// tell logs a stream that was ended. Its client learns of it only if it reads.
func (r *memoryQuota) tell(s *stream) {
	if r.lines.Allow("", time.Now()) {
		r.log.Warn("a stream was closed because its client did not read its answers while other streams waited for memory: check why it does not",
			"peer", s.conn.peer())
	}
}

// size returns the memory that a call uses after it was read. It is at most the whole quota.
func (r *memoryQuota) size(x *rawCall) int64 {
	return min(int64(max(len(x.message), x.came)+answerRoom*len(x.requests.All)), r.max)
}

// take takes n bytes, and waits for them if it has to. Its error is an RPC error.
func (r *memoryQuota) take(ctx context.Context, n int64) error {
	if r.try(n) {
		return nil
	}
	r.metrics.StreamWaits.Inc()
	for range quotaRounds {
		seen, looks := r.observe()
		err := r.wait(ctx, n)
		if looks {
			r.endObservation(seen, err == errNoRoom)
		}
		if err != errNoRoom {
			return err
		}
	}
	r.metrics.StreamsEnded[telemetry.EndedNoRoom].Inc()
	return errNoRoom
}

// try takes n bytes if they are free.
func (r *memoryQuota) try(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > r.max {
		return false
	}
	r.used += n
	return true
}

// wait waits one round for n bytes, and takes them. It returns errNoRoom if they did not become
// free.
func (r *memoryQuota) wait(ctx context.Context, n int64) error {
	over := time.NewTimer(unreadFor)
	defer over.Stop()
	for {
		freed, ok := r.await(n)
		if ok {
			return nil
		}
		select {
		case <-freed:
			r.here()
		case <-over.C:
			r.here()
			return errNoRoom
		case <-ctx.Done():
			r.here()
			return rpcCodes.Error(ctx.Err())
		}
	}
}

// await takes n bytes if they are free. Otherwise it registers a waiting message until here is
// called, and returns the channel to wait on.
func (r *memoryQuota) await(n int64) (freed <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n <= r.max {
		r.used += n
		return nil, true
	}
	r.waiting++
	r.min = min(r.min, n)
	return r.freed, false
}

func (r *memoryQuota) here() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
}

// give returns bytes. A negative n takes bytes, whether the quota has them or not.
func (r *memoryQuota) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.waiting > 0 && n > 0 && r.used+r.min <= r.max {
		close(r.freed)
		r.freed, r.min = make(chan struct{}), r.max
	}
}

// observe returns the number of the answer that each stream is sending. looks is false if another
// message already observes the streams.
func (r *memoryQuota) observe() (seen map[*stream]uint64, looks bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.observing {
		return nil, false
	}
	r.observing = true
	seen = map[*stream]uint64{}
	for s := range r.streams {
		if turn := s.turn.Load(); turn%2 == 1 {
			seen[s] = turn
		}
	}
	return seen, true
}

// endObservation ends an observation. After a round without room it ends the streams that are still sending
// the same answer as at its start.
func (r *memoryQuota) endObservation(seen map[*stream]uint64, short bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observing = false
	for s, turn := range seen {
		if _, open := r.streams[s]; short && open && s.turn.Load() == turn {
			close(s.unread)
			delete(r.streams, s)
			r.metrics.StreamsEnded[telemetry.EndedUnread].Inc()
		}
	}
}

// exportQuota exports how much of the quota is in use, which is read at each scrape.
func exportQuota(r *memoryQuota, reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_stream_bytes", Help: "Bytes that the messages of all streams take up while they are answered, at most 64 MiB.",
	}, func() float64 { return float64(r.inUse()) }))
}
