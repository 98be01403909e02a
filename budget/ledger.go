package budget

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Config is the static part of the protocol, the same for every participant.
type Config struct {
	// Lease is T: how long a region may spend its share on one renewal.
	Lease time.Duration
	// LeaseWait is the lease that every participant waits for while T changes, and LeaseNext is the
	// new T. Both are 0 while T does not change. See Ledger.SetTiming.
	LeaseWait, LeaseNext time.Duration
	// RhoPPM bounds the ratio of any two clocks' rates, minus 1, in millionths.
	RhoPPM int32
	// RhoRising: some region has not acknowledged this rho, which is larger than the previous one.
	RhoRising bool
	// Version counts the changes of the regions and their floors. It is 1 at the bootstrap.
	Version uint64
	// Regions are ordered by index. Their floors sum to Unit in each part.
	Regions []RegionConfig
}

// Index returns the index of the named region, or -1.
func (c *Config) Index(name string) int {
	return slices.IndexFunc(c.Regions, func(r RegionConfig) bool { return r.Name == name })
}

// Entry is one hot key. Shares has each region's liability, by index: an upper bound of what the
// region could be enforcing while its session lives.
type Entry struct {
	Key    KeyID
	Shares []Share
}

// Plan is the changes of one tick: absolute values, of changed keys only.
type Plan struct {
	// Epoch is the epoch of the leader that made the plan. A ledger refuses a plan of an older
	// epoch.
	Epoch   uint64
	Changes []Entry // an Entry with nil Shares removes the key
	// InitialRedisEpochs are ordered by region index.
	InitialRedisEpochs []InitialRedisEpoch
}

// InitialRedisEpoch records which store contents of a region started full.
type InitialRedisEpoch struct {
	Region     int
	RedisEpoch string
}

// Ledger is the replicated state of the protocol, built by the commands of the log. It is not safe
// for concurrent use. The zero value has no regions and no keys.
type Ledger struct {
	// Config is set at the bootstrap and changed by SetTiming and the methods of floors.go.
	Config Config
	// Epoch is the epoch of the latest leader; 0 before the first.
	Epoch   uint64
	entries map[KeyID][]Share
}

// Errors of Ledger.Apply. A stale plan is the ordinary end of an old leader. An overcommitted plan
// is a bug of the leader that made it.
var (
	ErrStalePlan     = errors.New("budget: plan of an older epoch")
	ErrOvercommitted = errors.New("budget: plan would let shares sum above the limit")
	ErrBadPlan       = errors.New("budget: malformed plan")
)

// MintEpoch starts the epoch of a new leader and returns it.
func (l *Ledger) MintEpoch() uint64 {
	l.Epoch++
	return l.Epoch
}

// Apply checks a whole plan, including invariant I1, and only then stores it.
func (l *Ledger) Apply(p Plan) error {
	if p.Epoch != l.Epoch {
		return fmt.Errorf("%w: %d, in force is %d", ErrStalePlan, p.Epoch, l.Epoch)
	}
	for _, e := range p.Changes {
		if err := l.check(e); err != nil {
			return err
		}
	}
	for _, r := range p.InitialRedisEpochs {
		if r.Region < 0 || r.Region >= len(l.Config.Regions) {
			return fmt.Errorf("%w: region index %d", ErrBadPlan, r.Region)
		}
	}
	for _, e := range p.Changes {
		l.set(e)
	}
	if len(p.InitialRedisEpochs) > 0 {
		l.Config = l.Config.clone()
	}
	for _, r := range p.InitialRedisEpochs {
		if l.Config.Regions[r.Region].InitialRedisEpoch == "" {
			l.Config.Regions[r.Region].InitialRedisEpoch = r.RedisEpoch
		}
	}
	return nil
}

func (l *Ledger) check(e Entry) error {
	if e.Shares == nil {
		return nil
	}
	if len(e.Shares) != len(l.Config.Regions) {
		return fmt.Errorf("%w: %d shares for %d regions", ErrBadPlan, len(e.Shares), len(l.Config.Regions))
	}
	var rate, burst int64
	for _, s := range e.Shares {
		if s.Rate < 0 || s.Burst < 0 {
			return fmt.Errorf("%w: negative share", ErrBadPlan)
		}
		rate += int64(s.Rate)
		burst += int64(s.Burst)
	}
	if rate > Unit || burst > Unit {
		return fmt.Errorf("%w: rate %d, burst %d of %d", ErrOvercommitted, rate, burst, Unit)
	}
	return nil
}

func (l *Ledger) set(e Entry) {
	if e.Shares == nil {
		delete(l.entries, e.Key)
		return
	}
	if l.entries == nil {
		l.entries = map[KeyID][]Share{}
	}
	l.entries[e.Key] = slices.Clone(e.Shares)
}

// Restore stores an entry that was read from a snapshot. It checks I1.
func (l *Ledger) Restore(e Entry) error {
	if err := l.check(e); err != nil {
		return err
	}
	l.set(e)
	return nil
}

// Shares returns the liabilities of a hot key by region index, or nil for a cold key. The caller
// must not modify them.
func (l *Ledger) Shares(k KeyID) []Share { return l.entries[k] }

// Holds reports whether region i has a liability for any hot key.
func (l *Ledger) Holds(i int) bool {
	for _, shares := range l.entries {
		if shares[i] != (Share{}) {
			return true
		}
	}
	return false
}

// Len returns the number of hot keys.
func (l *Ledger) Len() int { return len(l.entries) }

// Keys returns all hot keys in order.
func (l *Ledger) Keys() []KeyID {
	keys := make([]KeyID, 0, len(l.entries))
	for k := range l.entries {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, KeyID.Compare)
	return keys
}

// DropRules removes every entry whose rule number is not kept, and returns how many it removed. The
// keys of a deleted rule end with it.
func (l *Ledger) DropRules(kept func(rule uint32) bool) int {
	n := 0
	for k := range l.entries {
		if !kept(k.Rule) {
			delete(l.entries, k)
			n++
		}
	}
	return n
}

// Clone returns a deep copy, for snapshots and model checking.
func (l *Ledger) Clone() *Ledger {
	c := l.fork()
	c.Config = l.Config.clone()
	return c
}

// fork returns an independent copy. It shares what is replaced and never changed: the
// configuration's regions and the shares of an entry.
func (l *Ledger) fork() *Ledger {
	c := &Ledger{Config: l.Config, Epoch: l.Epoch, entries: make(map[KeyID][]Share, len(l.entries))}
	maps.Copy(c.entries, l.entries)
	return c
}
