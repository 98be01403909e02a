package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/regional/store/replies"
)

const (
	// sentinelInterval is how often the Sentinels are asked for the primary in normal operation, and
	// so the time within which a new primary is known.
	sentinelInterval = 500 * time.Millisecond
	// sentinelTimeout bounds one query. A majority of the Sentinels must answer it within that time.
	sentinelTimeout = 300 * time.Millisecond
	// olderConfigAfter is how long a majority of the Sentinels must keep to an older configuration than
	// the known one before the older one counts. Sentinels tell each other of a newer configuration
	// every two seconds, and Sentinels that were set up again begin with low numbers.
	olderConfigAfter = 10 * time.Second
)

// ErrNoPrimary: the name in the URL is not that of a primary which a Sentinel watches.
var ErrNoPrimary = errors.New("watches no primary of that name; the name stands behind the hosts in the URL")

// sentinels find out which server is the primary. They ask all Sentinels, and the answer with the
// latest configuration epoch counts. A Sentinel that was cut off still names the old primary; its
// answer does not count, even if no other Sentinel answers. Safe for concurrent use.
type sentinels struct {
	name    string // of the primary
	clients []*redis.Client
	log     *slog.Logger
	// moved is called with each new primary, the first one included.
	moved func(addr string, first bool)

	mu        sync.Mutex
	primary   string    // empty: not known
	announced string    // the primary of the latest call of moved
	epoch     int64     // of the latest known configuration
	older     time.Time // since when a majority keeps to an older one; zero: it does not
	watching  bool
	closed    bool

	watch  sync.WaitGroup
	ctx    context.Context // ends when they are closed
	cancel context.CancelFunc
}

func newSentinels(c *sentinelConfig, log *slog.Logger, moved func(addr string, first bool)) *sentinels {
	s := &sentinels{name: c.name, log: log, moved: moved}
	for _, o := range c.sentinels {
		replies.Bound(o, nil)
		s.clients = append(s.clients, redis.NewClient(o))
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// current returns the primary's address, by the latest answer.
func (s *sentinels) current(ctx context.Context) (string, error) {
	s.mu.Lock()
	known := s.primary
	if !s.watching && !s.closed {
		s.watching = true
		s.watch.Go(s.poll)
	}
	s.mu.Unlock()
	if known != "" {
		return known, nil
	}
	return s.queryAll(ctx)
}

// doubt forgets a primary that cannot be reached or is a replica. The next call that needs one asks.
func (s *sentinels) doubt(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if addr == "" || s.primary == addr {
		s.primary = ""
	}
}

// poll asks for the primary every sentinelInterval until close.
func (s *sentinels) poll() {
	failed := false
	for pause(s.ctx, sentinelInterval) == nil {
		_, err := s.queryAll(s.ctx)
		if s.ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			s.log.Warn("the Sentinels do not say which Redis is the primary", "error", err)
		}
		failed = err != nil
	}
}

// primaryAnswer is the answer of one Sentinel.
type primaryAnswer struct {
	addr  string
	epoch int64
	err   error
}

// queryAll asks all Sentinels, and waits until a majority has answered.
func (s *sentinels) queryAll(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sentinelTimeout)
	defer cancel()
	answers := make(chan primaryAnswer, len(s.clients))
	for _, client := range s.clients {
		go func() {
			var one primaryAnswer
			if err := safely(s.log, "a question to a Sentinel", func() error { one = s.queryOne(ctx, client); return nil }); err != nil {
				one = primaryAnswer{err: err}
			}
			answers <- one
		}()
	}
	var latest primaryAnswer
	answered := 0
	var failed error
	for range s.clients {
		one := <-answers
		if one.err != nil {
			failed = one.err
			continue
		}
		if latest.addr == "" || one.epoch > latest.epoch {
			latest = one
		}
		if answered++; 2*answered > len(s.clients) {
			break
		}
	}
	if latest.addr == "" {
		return "", fmt.Errorf("store: ask the Sentinels for the primary %q: %w", s.name, failed)
	}
	return s.accept(latest, 2*answered > len(s.clients), time.Now())
}

// queryOne asks one Sentinel. It asks for the epoch first, so the address that follows is not older
// than the epoch.
func (s *sentinels) queryOne(ctx context.Context, client *redis.Client) primaryAnswer {
	pipe := client.Pipeline()
	state := redis.NewMapStringStringCmd(ctx, "sentinel", "master", s.name)
	addr := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", s.name)
	_ = pipe.Process(ctx, state) // never fails: the commands are sent by Exec
	_ = pipe.Process(ctx, addr)
	_, err := pipe.Exec(ctx)
	if errors.Is(err, redis.Nil) || err != nil && redis.HasErrorPrefix(err, "No such master") {
		return primaryAnswer{err: fmt.Errorf("the Sentinel %s %w", client.Options().Addr, ErrNoPrimary)}
	}
	if err != nil {
		return primaryAnswer{err: fmt.Errorf("the Sentinel %s: %w", client.Options().Addr, err)}
	}
	epoch, err := strconv.ParseInt(state.Val()["config-epoch"], 10, 64)
	if err != nil || len(addr.Val()) != 2 {
		return primaryAnswer{err: fmt.Errorf("the Sentinel %s: its answer cannot be read", client.Options().Addr)}
	}
	return primaryAnswer{addr: net.JoinHostPort(addr.Val()[0], addr.Val()[1]), epoch: epoch}
}

// accept takes the latest answer of the Sentinels that answered. majority reports whether these are a
// majority. An answer older than the known configuration does not count, unless a majority keeps to it.
func (s *sentinels) accept(answer primaryAnswer, majority bool, now time.Time) (addr string, err error) {
	s.mu.Lock()
	before := s.announced
	if answer.epoch >= s.epoch || s.olderHolds(majority, now) {
		s.epoch, s.older = answer.epoch, time.Time{}
	} else if answer.addr != before {
		defer s.mu.Unlock()
		return "", fmt.Errorf("store: the Sentinels that answer name %s as the primary %q, by configuration %d; %s is, by configuration %d", answer.addr, s.name, answer.epoch, before, s.epoch)
	}
	s.primary, s.announced = answer.addr, answer.addr
	s.mu.Unlock()
	if before != answer.addr {
		s.moved(answer.addr, before == "")
	}
	return answer.addr, nil
}

// olderHolds records whether a majority keeps to a configuration older than the known one, and reports
// whether it has for long enough. The caller holds mu.
func (s *sentinels) olderHolds(majority bool, now time.Time) bool {
	if !majority {
		s.older = time.Time{}
		return false
	}
	if s.older.IsZero() {
		s.older = now
	}
	return now.Sub(s.older) >= olderConfigAfter
}

func (s *sentinels) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.watch.Wait()
	var errs []error
	for _, client := range s.clients {
		errs = append(errs, client.Close())
	}
	return errors.Join(errs...)
}
