package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"aliquot/budget"
	"aliquot/internal/roster"
	"aliquot/lua"
	"aliquot/regional/internal/authority"
	"aliquot/regional/internal/background"
	"aliquot/regional/internal/emergency"
	"aliquot/regional/internal/policy"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/internal/telemetry"
)

// RosterStore is a store that several daemons of a region may share, and that keeps a list of them.
type RosterStore interface {
	// Roster adds this daemon to the list, or removes it, and returns the list.
	Roster(ctx context.Context, epoch string, c roster.Call) (roster.Reply, error)
}

// Others holds what this daemon knows of the other daemons of its region, and decides what it may
// spend beside them. A nil *Others knows of no other daemon; it is used when the store belongs to
// this process alone. Safe for concurrent use.
type Others struct {
	store     RosterStore
	auth      *authority.Authority
	emergency *emergency.Limit
	policies  *policy.Policies
	metrics   *telemetry.Metrics
	log       *slog.Logger
	now       func() budget.Instant

	mu       sync.Mutex
	roster   *roster.Roster
	contents string            // the store's contents that the roster's number belongs to
	unmarked bool              // the store did not take the latest mark that the region is heard
	waits    bool              // whether it waits, as logged and exported last
	began    budget.Instant    // when the daemon started
	known    []budget.DaemonID // as written to the state file last
	wake     chan struct{}     // has room for one: the list is to be read at once
}

// OthersConfig is what NewOthers needs. All fields are required but Known.
type OthersConfig struct {
	Store     RosterStore
	Authority *authority.Authority
	Emergency *emergency.Limit
	Policies  *policy.Policies // gets a reminder when the known daemons change, for the state file
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
	Now       func() budget.Instant // the boot clock
	// Self is this daemon's id. Known are the other daemons that it knew when it last ran.
	Self  budget.DaemonID
	Known []budget.DaemonID
}

// NewOthers returns what a daemon that starts knows of the others, and tells its emergency limit
// whether there may be one.
func NewOthers(c OthersConfig) *Others {
	now := c.Now()
	o := &Others{
		store: c.Store, auth: c.Authority, emergency: c.Emergency, policies: c.Policies, metrics: c.Metrics, log: c.Log, now: c.Now,
		began: now, known: c.Known, wake: make(chan struct{}, 1), roster: roster.New(c.Self, c.Known, now),
	}
	o.restrict(now)
	return o
}

// Calls is what makes calls of the store. A *storeguard.Guard does.
type Calls interface {
	// Call makes a call that op names in the metrics, under the contents that epoch names. do returns
	// the store's clock, or 0 if the answer lacks it.
	Call(ctx context.Context, op, epoch string, do func(context.Context) (now int64, err error)) error
	// Learn asks which contents the store has, and tells the state machine.
	Learn(ctx context.Context) error
}

// DaemonID returns the id that a daemon keeps over its restarts. It depends on an id in the state
// file and on the address, so that another daemon with a copy of the file has another id.
func DaemonID(fileID, address string) budget.DaemonID {
	sum := sha256.Sum256([]byte(fileID + "\n" + address))
	return budget.DaemonID(binary.BigEndian.Uint64(sum[:]) | 1)
}

// NewFileID returns a random id for a new state file.
func NewFileID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	return hex.EncodeToString(b[:])
}

// Self returns this daemon's id; 0 if no other daemon can have the same store.
func (o *Others) Self() budget.DaemonID {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.roster.Self()
}

// Spends reports whether this daemon may spend from the store.
func (o *Others) Spends() bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.roster.Spends(o.now())
}

// Unread reports whether the store has told its contents, and their list of daemons was not read yet.
func (o *Others) Unread() bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reach(o.auth.CurrentEpoch())
	return o.roster.Unread()
}

// awaitList waits until the list of daemons was read, if the store has told its contents, but no longer
// than the store has for an answer.
func (o *Others) awaitList(ctx context.Context) {
	for waited := time.Duration(0); o.Unread() && waited < storeguard.HeardDeadline; waited += notYet {
		if !background.Pause(ctx, notYet) {
			return
		}
	}
}

// Learned says that the store has other contents. Their list of daemons is read at once.
func (o *Others) Learned() {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.reach(o.auth.CurrentEpoch())
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // it is about to be read
	}
}

// reach records the store's contents; empty: it has not told them. The caller holds mu.
func (o *Others) reach(epoch string) {
	if epoch != "" && epoch != o.contents {
		o.contents = epoch
		o.roster.Contents()
		o.restrict(o.now())
	}
}

// restrict passes to the emergency limit whether this daemon may admit by it. The caller holds mu.
func (o *Others) restrict(now budget.Instant) {
	o.emergency.Beside(!o.isAlone(now), o.roster.Certainty(now))
}

// isAlone reports whether this daemon may admit by its emergency limit, as far as it knows of other
// daemons. The caller holds mu.
func (o *Others) isAlone(now budget.Instant) bool {
	return o.roster.Alone(now, o.emergency.HasSession())
}

// Alone reports whether this daemon may admit by its emergency limit.
func (o *Others) Alone() bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.isAlone(o.now())
}

// inSession returns what the daemon says of itself in reports. It counts as storeless also if the
// store did not take the latest mark. Marks come with sessions, so a Hello does not consider them.
func (o *Others) inSession(storeless bool) budget.Standing {
	if o != nil {
		o.mu.Lock()
		storeless = storeless || o.unmarked
		o.mu.Unlock()
	}
	return o.standing(storeless)
}

// standing returns what the daemon says of itself in Hellos.
func (o *Others) standing(storeless bool) budget.Standing {
	if o == nil {
		return budget.Standing{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	return budget.Standing{
		Daemon: o.roster.Self(), Storeless: storeless, Alone: o.isAlone(now) && !o.emergency.HasLeft(), Others: o.roster.Others(now),
	}
}

// recordMark records whether the store has taken the latest mark that the region is heard.
func (o *Others) recordMark(ok bool) {
	if o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.unmarked = !ok
	}
}

// recordReport records the answer of the leader of an epoch to a report, which names the other daemons that it
// knows of. While the answer shows that this daemon has the session, the leader vouches for it, as by a Hello.
func (o *Others) recordReport(epoch uint64, ids []budget.DaemonID) {
	o.change(func(r *roster.Roster, now budget.Instant) {
		if r.Told(epoch, ids, now); o.emergency.HasSession() {
			r.Vouched()
		}
	})
}

// recordOthers records the other daemons that the leader of an epoch knows of. It has said that one of them has the
// session, and the next leader may know of none. A coordinator of an earlier version names no epoch.
func (o *Others) recordOthers(epoch uint64, ids []budget.DaemonID) {
	if epoch != 0 {
		o.change(func(r *roster.Roster, now budget.Instant) { r.Told(epoch, ids, now) })
	}
}

// recordAnswer records a coordinator's answer to a Hello: whether this daemon has to wait before it
// spends from the store.
func (o *Others) recordAnswer(wait bool) {
	o.change(func(r *roster.Roster, now budget.Instant) {
		if wait {
			r.Wait(now)
		} else {
			r.Vouched()
		}
	})
}

// change changes the roster, and adapts the emergency limit to the change at once.
func (o *Others) change(do func(r *roster.Roster, now budget.Instant)) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	do(o.roster, now)
	o.restrict(now)
	o.publish(now)
}

// publish logs and exports whether this daemon waits, and has the known daemons written to the state
// file. The caller holds mu.
func (o *Others) publish(now budget.Instant) {
	if waits := o.contents != "" && !o.roster.Spends(now) && now.Sub(o.began) >= quietFor; waits != o.waits {
		o.waits = waits
		o.metrics.SetDegraded(telemetry.DegradedWaits, waits)
		if waits {
			o.log.Warn("this daemon does not spend by the store yet: a coordinator has not vouched for it, or another daemon of this region is in the store's list and has not read of it. " +
				"That one may be admitting without the store. If it is gone for good, this one needs a coordinator, or the key " + lua.RosterKey + " deleted in the store")
		} else {
			o.log.Info("this daemon spends by the store")
		}
	}
	if known := o.roster.Others(now); !slices.Equal(known, o.known) {
		o.known = known
		o.policies.Remind()
	}
}

// quietFor is how long a daemon may wait at its start before it logs that.
const quietFor = 3 * time.Second

// Known returns the other daemons that this daemon knows of, for the state file.
func (o *Others) Known() []budget.DaemonID {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.known)
}

// Run reads the store's list through guard until ctx ends, and then removes this daemon from the
// list.
func (o *Others) Run(ctx context.Context, guard Calls) {
	if o == nil {
		return
	}
	for {
		if !o.pause(ctx, o.read(ctx, guard)) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeguard.Deadline)
	defer cancel()
	o.mu.Lock()
	call, epoch := o.roster.Call(), o.contents
	o.mu.Unlock()
	if call.Number != 0 {
		call.Leaves = true
		_, _ = o.store.Roster(ctx, epoch, call) // otherwise the other daemons forget it in an hour
	}
}

// pause waits until the list is to be read again. It returns false if ctx has ended.
func (o *Others) pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-o.wake:
		return ctx.Err() == nil
	case <-time.After(wait):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// notYet is the wait for a store that has not answered yet.
const notYet = 20 * time.Millisecond

// read reads the list once. It returns how long to wait before the next read.
func (o *Others) read(ctx context.Context, guard Calls) (wait time.Duration) {
	epoch := o.auth.CurrentEpoch()
	if epoch == "" {
		o.change(func(*roster.Roster, budget.Instant) {}) // the others are forgotten in an hour
		return notYet
	}
	o.mu.Lock()
	o.reach(epoch)
	call := o.roster.Call()
	o.mu.Unlock()
	var reply roster.Reply
	err := guard.Call(ctx, storeguard.OpRoster, epoch, func(ctx context.Context) (now int64, err error) {
		reply, err = o.store.Roster(ctx, epoch, call)
		return reply.Now, err
	})
	if _, other := errors.AsType[*lua.EpochError](err); other {
		_ = guard.Learn(ctx) // the next read asks for it again
	}
	o.change(func(r *roster.Roster, now budget.Instant) {
		if err == nil && o.contents == epoch { // otherwise it is the list of contents that are lost
			r.Answered(reply, now)
		}
		wait = r.NextRead(now)
	})
	return wait
}
