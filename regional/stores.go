package regional

import (
	"time"

	"aliquot/budget"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/store"
	"aliquot/regional/store/memory"
)

// MemoryStore is the value of Config.Redis that selects the store inside the process.
const MemoryStore = "memory"

// storeKind is a kind of store that Config.Redis can name.
type storeKind struct {
	// name is the kind on the page /store.
	name string
	// matches reports whether a setting names a store of this kind.
	matches func(setting string) bool
	// embedded: the store is in this process. It has no password, and requests need not share calls.
	embedded bool
	// check returns an error if no store could ever be used under a setting. It dials nothing, and
	// its errors do not show the setting, which may hold a password. Nil: each can be used.
	check func(setting string) error
	// open returns the store of a setting. It dials nothing.
	open func(d *Daemon, setting string) (storeguard.Store, error)
}

// storeKinds are the kinds of stores. The first that matches a setting counts. The last one matches
// every setting: its errors say what can be given.
var storeKinds = [...]storeKind{
	{
		name: MemoryStore, matches: func(setting string) bool { return setting == MemoryStore }, embedded: true,
		open: func(d *Daemon, _ string) (storeguard.Store, error) {
			return memory.New(memory.Config{Clock: windowClock(d.cfg.Now, time.Now())})
		},
	},
	{
		name: "redis", matches: store.IsCluster, check: store.CheckURL,
		open: func(d *Daemon, url string) (storeguard.Store, error) { return store.NewCluster(d.redisConfig(url)) },
	},
	{
		name: "redis", matches: func(string) bool { return true }, check: store.CheckURL,
		open: func(d *Daemon, url string) (storeguard.Store, error) { return store.NewRedis(d.redisConfig(url)) },
	},
}

// storeKind returns the kind of the store that the configuration names.
func (c *Config) storeKind() *storeKind {
	i := 0
	for !storeKinds[i].matches(c.Redis) {
		i++
	}
	return &storeKinds[i]
}

func (d *Daemon) openStore() (storeguard.Store, error) {
	setting, err := d.cfg.storeSetting()
	if err != nil {
		return nil, err
	}
	return d.cfg.storeKind().open(d, setting)
}

// redisConfig returns the configuration of a Redis or a Redis Cluster.
func (d *Daemon) redisConfig(url string) store.RedisConfig {
	store.LogLibrary(d.cfg.Logger)
	c := store.DefaultRedisConfig(url)
	c.Logger = d.log
	c.OnEpoch = func(epoch string) {
		observer{d.auth, d.emergency, &d.lists}.StoreEpoch(epoch)
		d.guard.Breaker.TryNow()
		d.wakeProbe()
	}
	c.OnPrimary = d.newPrimary
	c.OnCircuit = d.shardBreakerChanged
	return c
}

// windowClock returns a clock of Unix microseconds, like that of a Redis. So windows begin in all
// regions at once, and where people expect them: those of a day begin at midnight UTC. After its start
// it follows the boot clock, because people may set a wall clock.
func windowClock(now func() budget.Instant, start time.Time) func() int64 {
	from, began := start.UnixMicro(), now()
	return func() int64 { return from + int64(now()-began)/1000 }
}
