package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"aliquot/internal/roster"
	"aliquot/limit"
	"aliquot/lua"
	"aliquot/regional/store/replies"
)

// RedisConfig says how to reach a region's Redis. Start from DefaultRedisConfig.
type RedisConfig struct {
	// URL is redis:// or rediss://, with user, password and database as usual, or redis+sentinel://
	// or redis+cluster://, as sentinelOptions and clusterOptions read them.
	URL string
	// PoolSize is the maximum number of connections. Each connection carries one call at a time.
	PoolSize int
	// MinIdle connections are kept open ahead of need.
	MinIdle int
	// DialTimeout bounds the opening of a connection, with the learning of the epoch.
	DialTimeout time.Duration
	// CallTimeout bounds each read and write, except those of Apply and ApplyLease, which their
	// context bounds. A context may shorten it.
	CallTimeout time.Duration
	// OnEpoch is called when a new connection finds other contents than the last ones seen, before
	// that connection serves its first call. It is not called for the first contents. It must be
	// quick, safe for concurrent use, and not call the store. May be nil.
	OnEpoch func(epoch string)
	// OnPrimary is called when Sentinels name another primary than before, and for the first one.
	// It must be quick and not call the store. May be nil.
	OnPrimary func()
	// OnCircuit is called when the breaker of a node of a Redis Cluster opens, with the cause, and
	// when it closes. It is also called when a node whose breaker is open is dropped. It must be
	// quick and not call the store. May be nil.
	OnCircuit func(node string, open bool, cause error)
	// Logger gets warnings; nil discards them.
	Logger *slog.Logger
}

// DefaultRedisConfig returns a configuration for a Redis in the same datacenter.
func DefaultRedisConfig(redisURL string) RedisConfig {
	return RedisConfig{
		URL:         redisURL,
		PoolSize:    16,
		MinIdle:     4,
		DialTimeout: 500 * time.Millisecond,
		CallTimeout: 100 * time.Millisecond,
	}
}

// Redis keeps the records in one Redis: a fixed one, or the primary that Sentinels name. It is safe
// for concurrent use.
type Redis struct {
	access      atomic.Pointer[access]
	dialOptions redis.Options // the options of each access
	sentinels   *sentinels    // nil: there are none
	// dial connects to a primary that Sentinels name.
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	onEpoch func(string)
	log     *slog.Logger

	mu            sync.Mutex
	lastEpoch     string   // the epoch last learned, by any connection
	formerEpochs  []string // earlier ones, at most maxFormerEpochs
	policyChecked bool

	renewing sync.Mutex // held while access is replaced
	closed   bool
}

// maxFormerEpochs is how many earlier epochs of the store are remembered.
const maxFormerEpochs = 16

// NewRedis prepares the store. It dials nothing before the first call. It fails only on a
// configuration that could never work.
func NewRedis(c RedisConfig) (*Redis, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Redis{onEpoch: c.OnEpoch, log: c.Logger}
	options, err := s.options(c)
	if err != nil {
		return nil, err
	}
	s.dialOptions = *options
	if s.sentinels != nil {
		replies.Bound(&s.dialOptions, s.dialPrimary)
	} else {
		replies.Bound(&s.dialOptions, nil)
	}
	s.dialOptions.OnConnect = s.connected
	s.access.Store(s.newAccess())
	return s, nil
}

func (s *Redis) options(c RedisConfig) (*redis.Options, error) {
	if !IsSentinel(c.URL) {
		return redisOptions(c)
	}
	options, where, err := sentinelOptions(c)
	if err != nil {
		return nil, err
	}
	if options.TLSConfig != nil {
		options.TLSConfig = options.TLSConfig.Clone()
		options.TLSConfig.ServerName = "" // it is that of the primary, which is not known yet
	}
	s.dial = redis.NewDialer(options)
	s.sentinels = newSentinels(where, c.Logger, func(addr string, first bool) {
		c.Logger.Info("the Sentinels name a primary", "address", addr)
		if !first {
			s.Renew()
		}
		if c.OnPrimary != nil {
			c.OnPrimary()
		}
	})
	return options, nil
}

// dialPrimary connects to the primary that the Sentinels name.
func (s *Redis) dialPrimary(ctx context.Context, _, _ string) (net.Conn, error) {
	addr, err := s.sentinels.current(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := s.dial(ctx, "tcp", addr)
	if err != nil {
		s.sentinels.doubt(addr)
	}
	return conn, err
}

// reservedOptions are options of a Redis URL that the daemon sets itself: its breaker and its answers
// rely on its own deadlines.
var reservedOptions = []string{
	"dial_timeout", "read_timeout", "write_timeout", "pool_timeout", "pool_size", "min_idle_conns",
	"max_retries", "min_retry_backoff", "max_retry_backoff",
}

// redisOptions reads the URL. Its errors never show the URL, which may hold a password.
func redisOptions(c RedisConfig) (*redis.Options, error) {
	scheme, _, found := strings.Cut(c.URL, "://")
	switch {
	case !found:
		return nil, errors.New("store: the Redis URL has no scheme; write redis://HOST:PORT")
	case scheme != "redis" && scheme != "rediss":
		return nil, fmt.Errorf("store: %q is not a Redis URL's scheme; use redis://, rediss://, redis+sentinel:// or redis+cluster://", scheme)
	}
	o, err := redis.ParseURL(c.URL)
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return nil, fmt.Errorf("store: the Redis URL cannot be read: %s", withoutSecrets(err.Error(), c.URL))
	}
	if u, err := url.Parse(c.URL); err == nil {
		for _, option := range reservedOptions {
			if u.Query().Has(option) {
				return nil, fmt.Errorf("store: the Redis URL sets %s, which the daemon sets itself; remove it", option)
			}
		}
	}
	if o.DB < 0 {
		return nil, fmt.Errorf("store: the Redis URL names database %d; give 0 or more, or none for 0", o.DB)
	}
	o.ContextTimeoutEnabled = true
	o.DialTimeout = c.DialTimeout
	o.ReadTimeout, o.WriteTimeout = c.CallTimeout, c.CallTimeout
	o.PoolSize, o.MinIdleConns = c.PoolSize, c.MinIdle
	o.PoolTimeout = c.CallTimeout
	o.MaxRetries = -1        // a script that is sent twice charges twice
	o.DialerRetries = 1      // the caller's breaker decides when to try again
	o.DisableIdentity = true // CLIENT SETINFO needs rights that a store does not otherwise need
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, nil
}

func withoutSecrets(text, redisURL string) string {
	text = strings.ReplaceAll(text, redisURL, "(URL)")
	if _, rest, ok := strings.Cut(redisURL, "://"); ok {
		if i := strings.LastIndex(rest, "@"); i > 0 {
			for part := range strings.SplitSeq(rest[:i], ":") {
				if part != "" {
					text = strings.ReplaceAll(text, part, "xxx")
				}
			}
		}
	}
	return text
}

// connected learns the epoch on every new connection before its first use. A restarted server may
// have loaded an old state, and a new server may lack the latest.
func (s *Redis) connected(ctx context.Context, cn *redis.Conn) error {
	epoch, err := lua.LearnEpoch(ctx, cn, lua.NewNonce(), s.isFormer)
	if err != nil {
		if isReplicaError(err) && s.sentinels != nil {
			s.sentinels.doubt("")
		}
		return err
	}
	s.setEpoch(epoch)
	return nil
}

// isFormer reports whether the store had other contents after those of epoch. The contents of epoch
// lack what was spent since. So a primary that the Sentinels name again must get a new epoch.
func (s *Redis) isFormer(epoch string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.formerEpochs, epoch)
}

func (s *Redis) setEpoch(epoch string) {
	s.mu.Lock()
	before := s.lastEpoch
	s.lastEpoch = epoch
	if before != "" && before != epoch {
		s.formerEpochs = append(s.formerEpochs[max(0, len(s.formerEpochs)-maxFormerEpochs+1):], before)
	}
	s.mu.Unlock()
	if before == "" || before == epoch {
		return
	}
	s.log.Warn("the contents of redis have changed: this daemon writes what it remembers of a key when a request names the key; keys that it does not remember start empty", "epoch", epoch, "before", before)
	if s.onEpoch != nil {
		s.onEpoch(epoch)
	}
}

// Epoch returns the redis epoch of the contents, or creates one. Call it at start and after an
// *EpochError. It warns if the server may evict buckets, because each evicted bucket would come
// back full.
func (s *Redis) Epoch(ctx context.Context) (string, error) {
	epoch, err := lua.LearnEpoch(ctx, s.client(), lua.NewNonce(), s.isFormer)
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	s.mu.Lock()
	first := s.lastEpoch != epoch || !s.policyChecked
	s.policyChecked = true
	s.mu.Unlock()
	s.setEpoch(epoch)
	if first {
		warnOfEviction(ctx, s.client(), s.log)
	}
	return epoch, nil
}

func warnOfEviction(ctx context.Context, client redis.Cmdable, log *slog.Logger) {
	info, err := client.Info(ctx, "memory").Result() // not CONFIG GET, which few users are allowed to call
	if err != nil {
		return // the policy is unknown then
	}
	if policy := lua.EvictionPolicy(info); policy != "" && policy != "noeviction" {
		log.Error("redis evicts keys under memory pressure: an evicted bucket comes back full and limits are exceeded; set maxmemory-policy noeviction",
			"maxmemory-policy", policy)
	}
}

// Take decides groups; see lua.Scripts.Take.
func (s *Redis) Take(ctx context.Context, epoch string, groups []Group) ([]Result, int64, error) {
	return s.access.Load().scripts.Take(ctx, epoch, groups)
}

// Apply makes changes, any number of them; see lua.Scripts.Apply.
func (s *Redis) Apply(ctx context.Context, epoch string, changes []Change) ([]limit.Applied, int64, error) {
	return s.access.Load().applies.Apply(ctx, epoch, changes, false)
}

// ApplyLease makes changes, of which there may be none, for a caller that takes a lease along with
// them. Afterwards the region counts as heard now, for every daemon that asks this Redis with
// View.HeardWait.
func (s *Redis) ApplyLease(ctx context.Context, epoch string, changes []Change) ([]limit.Applied, int64, error) {
	return s.access.Load().applies.Apply(ctx, epoch, changes, true)
}

// Reserve decides the groups of one request and remembers the result; see lua.Scripts.Reserve.
func (s *Redis) Reserve(ctx context.Context, epoch string, groups []Group, r lua.Reservation) (lua.Reserved, int64, error) {
	return s.access.Load().scripts.Reserve(ctx, epoch, groups, r)
}

// Reservation returns the remembered reservation of a request; see lua.Scripts.Reservation.
func (s *Redis) Reservation(ctx context.Context, key string) (*lua.Kept, error) {
	return s.access.Load().scripts.Reservation(ctx, key)
}

// Adjust makes adjustments; see lua.Scripts.Adjust.
func (s *Redis) Adjust(ctx context.Context, epoch string, parts []lua.Part) ([]limit.Adjusted, error) {
	return s.access.Load().scripts.Adjust(ctx, epoch, parts)
}

// Settle ends a reservation; see lua.Scripts.Settle.
func (s *Redis) Settle(ctx context.Context, epoch string, end lua.Settlement) (lua.Settled, int64, error) {
	return s.access.Load().scripts.Settle(ctx, epoch, end)
}

// Roster records one daemon in the list of the region's daemons, and reads the list; see
// lua.Scripts.Roster.
func (s *Redis) Roster(ctx context.Context, epoch string, c roster.Call) (roster.Reply, error) {
	return s.access.Load().scripts.Roster(ctx, epoch, c)
}

// Close closes the connections. Calls under way fail.
func (s *Redis) Close() error {
	s.renewing.Lock()
	s.closed = true
	err := s.client().Close()
	s.renewing.Unlock()
	if s.sentinels != nil {
		err = errors.Join(err, s.sentinels.close())
	}
	return err
}
