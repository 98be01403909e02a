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
	// sentinelEvery is the interval of questions for the primary in normal operation, and so the
	// time within which a new primary is known.
	sentinelEvery = 500 * time.Millisecond
	// sentinelWithin bounds one question. Most of the Sentinels must answer it or fail within that
	// time.
	sentinelWithin = 300 * time.Millisecond
	// olderConfigAfter is for how long most of the Sentinels must keep to an older configuration than
	// the known one before the older one counts. Sentinels tell each other of a newer configuration
	// every two seconds, and Sentinels that were set up again begin with low numbers.
	olderConfigAfter = 10 * time.Second
)

// ErrNoPrimary: the name in the URL is not that of a primary which a Sentinel watches.
var ErrNoPrimary = errors.New("watches no primary of that name; the name stands behind the hosts in the URL")

// sentinels know which server is the primary. All Sentinels are asked, and the answer with the
// latest configuration epoch counts. A Sentinel that was cut off still names the old primary. It is
// not followed, even if no other Sentinel answers. Safe for concurrent use.
type sentinels struct {
	name    string // of the primary
	clients []*redis.Client
	log     *slog.Logger
	// moved is called with each new primary, the first one included.
	moved func(addr string, first bool)

	mu       sync.Mutex
	primary  string    // empty: not known
	told     string    // the primary of the latest call of moved
	epoch    int64     // of the latest known configuration
	older    time.Time // since when most Sentinels keep to an older one; zero: they do not
	watching bool
	closed   bool

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
	return s.ask(ctx)
}

// doubt forgets a primary that cannot be reached or is none. The next call that needs it asks.
func (s *sentinels) doubt(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if addr == "" || s.primary == addr {
		s.primary = ""
	}
}

// poll asks for the primary every sentinelEvery until close.
func (s *sentinels) poll() {
	failed := false
	for pause(s.ctx, sentinelEvery) == nil {
		_, err := s.ask(s.ctx)
		if s.ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			s.log.Warn("the Sentinels do not say which Redis is the primary", "error", err)
		}
		failed = err != nil
	}
}

// named is the answer of one Sentinel.
type named struct {
	addr  string
	epoch int64
	err   error
}

// ask asks all Sentinels, and waits until most have answered.
func (s *sentinels) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sentinelWithin)
	defer cancel()
	heard := make(chan named, len(s.clients))
	for _, client := range s.clients {
		go func() {
			var one named
			if err := safely(s.log, "a question to a Sentinel", func() error { one = s.askOne(ctx, client); return nil }); err != nil {
				one = named{err: err}
			}
			heard <- one
		}()
	}
	var latest named
	answered := 0
	var failed error
	for range s.clients {
		one := <-heard
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
	return s.found(latest, 2*answered > len(s.clients), time.Now())
}

// askOne asks one Sentinel. It asks for the epoch first, so the address that follows is not older
// than the epoch.
func (s *sentinels) askOne(ctx context.Context, client *redis.Client) named {
	pipe := client.Pipeline()
	state := redis.NewMapStringStringCmd(ctx, "sentinel", "master", s.name)
	addr := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", s.name)
	_ = pipe.Process(ctx, state) // never fails: the commands are sent by Exec
	_ = pipe.Process(ctx, addr)
	_, err := pipe.Exec(ctx)
	if errors.Is(err, redis.Nil) || err != nil && redis.HasErrorPrefix(err, "No such master") {
		return named{err: fmt.Errorf("the Sentinel %s %w", client.Options().Addr, ErrNoPrimary)}
	}
	if err != nil {
		return named{err: fmt.Errorf("the Sentinel %s: %w", client.Options().Addr, err)}
	}
	epoch, err := strconv.ParseInt(state.Val()["config-epoch"], 10, 64)
	if err != nil || len(addr.Val()) != 2 {
		return named{err: fmt.Errorf("the Sentinel %s: its answer cannot be read", client.Options().Addr)}
	}
	return named{addr: net.JoinHostPort(addr.Val()[0], addr.Val()[1]), epoch: epoch}
}

// found takes the latest answer of the Sentinels that answered, and whether these are most of them.
// An answer older than the known configuration does not count, unless most Sentinels keep to it.
func (s *sentinels) found(said named, most bool, now time.Time) (addr string, err error) {
	s.mu.Lock()
	before := s.told
	if said.epoch >= s.epoch || s.kept(most, now) {
		s.epoch, s.older = said.epoch, time.Time{}
	} else if said.addr != before {
		defer s.mu.Unlock()
		return "", fmt.Errorf("store: the Sentinels that answer name %s as the primary %q, by configuration %d; %s is, by configuration %d", said.addr, s.name, said.epoch, before, s.epoch)
	}
	s.primary, s.told = said.addr, said.addr
	s.mu.Unlock()
	if before != said.addr {
		s.moved(said.addr, before == "")
	}
	return said.addr, nil
}

// kept records whether most Sentinels keep to a configuration older than the known one, and reports
// whether they have for long enough. The caller holds mu.
func (s *sentinels) kept(most bool, now time.Time) bool {
	if !most {
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
