package regional

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/types/known/durationpb"

	"aliquot/limit"
	"aliquot/lua"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/engine"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/storeguard"
	"aliquot/regional/store/memory"
)

// slotRules are four slots of a client at a time, for an hour each.
const slotRules = `
defaults: {enforcement: independent, key: [api_key]}
rules:
  - {id: r0, algorithm: concurrency, params: {limit: 4, window: 3600}}
  - {id: r1, unit: tokens_out, params: {capacity: 1000, refill_rate: 0.001}}
`

// faultyStore is a store that fails at the test's word.
type faultyStore struct {
	storeguard.Store
	fault atomic.Pointer[string]
}

// errReadOnly is what a Redis answers that has become a replica. Such a call has charged nothing.
var errReadOnly redis.Error = redisAnswer("READONLY You can't write against a read only replica")

// redisAnswer is an error that a Redis answers with.
type redisAnswer string

func (a redisAnswer) Error() string { return string(a) }
func (redisAnswer) RedisError()     {}

// call makes a call as the fault lets it.
func (s *faultyStore) call(ctx context.Context, make func() error) error {
	switch of := s.fault.Load(); {
	case of == nil:
		return make()
	case *of == "stopped":
		<-ctx.Done()
		return ctx.Err()
	case *of == "slow": // it decides, and its answer comes too late
		err := make()
		<-ctx.Done()
		return errors.Join(err, ctx.Err())
	default:
		return errReadOnly
	}
}

func (s *faultyStore) Epoch(ctx context.Context) (out string, err error) {
	err = s.call(ctx, func() (err error) { out, err = s.Store.Epoch(ctx); return err })
	return out, err
}

func (s *faultyStore) Take(ctx context.Context, epoch string, groups []lua.Group) (out []lua.Result, now int64, err error) {
	err = s.call(ctx, func() (err error) { out, now, err = s.Store.Take(ctx, epoch, groups); return err })
	return out, now, err
}

func (s *faultyStore) ApplyLease(ctx context.Context, epoch string, changes []lua.Change) (out []limit.Applied, now int64, err error) {
	err = s.call(ctx, func() (err error) { out, now, err = s.Store.ApplyLease(ctx, epoch, changes); return err })
	return out, now, err
}

func (s *faultyStore) Apply(ctx context.Context, epoch string, changes []lua.Change) (out []limit.Applied, now int64, err error) {
	err = s.call(ctx, func() (err error) { out, now, err = s.Store.Apply(ctx, epoch, changes); return err })
	return out, now, err
}

func (s *faultyStore) Reserve(ctx context.Context, epoch string, groups []lua.Group, r lua.Reservation) (out lua.Reserved, now int64, err error) {
	err = s.call(ctx, func() (err error) { out, now, err = s.Store.Reserve(ctx, epoch, groups, r); return err })
	return out, now, err
}

func (s *faultyStore) Reservation(ctx context.Context, key string) (out *lua.Kept, err error) {
	err = s.call(ctx, func() (err error) { out, err = s.Store.Reservation(ctx, key); return err })
	return out, err
}

func (s *faultyStore) Settle(ctx context.Context, epoch string, end lua.Settlement) (out lua.Settled, now int64, err error) {
	err = s.call(ctx, func() (err error) { out, now, err = s.Store.Settle(ctx, epoch, end); return err })
	return out, now, err
}

// slotsOutage is a daemon whose store fails.
type slotsOutage struct {
	*testing.T
	d     *Daemon
	store *faultyStore
}

func (o *slotsOutage) breaks(fault string) { o.store.fault.Store(&fault) }

// isFelt asks about another client until the daemon does not ask the store any more. A call that the store may still have
// decided would count as a slot.
func (o *slotsOutage) isFelt() {
	for range 10 {
		if _, err := o.d.service.Check(o.Context(), &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "other"}}); err != nil {
			o.Fatal(err)
		}
	}
}

func (o *slotsOutage) heals() { o.store.fault.Store(nil) }

// loses begins new contents of the store, which answers again.
func (o *slotsOutage) loses() {
	other, err := memory.New(memory.Config{Clock: windowClock(o.d.cfg.Now, time.Now())})
	if err != nil {
		o.Fatal(err)
	}
	o.store.Store = other
	o.heals()
}

// wants reserves a slot and some tokens, and returns the id.
func (o *slotsOutage) wants(id string, allowed bool) string {
	o.Helper()
	out, err := limiterClient(o.d).Reserve(o.Context(), &aliquotv1.ReserveRequest{
		Id: id, Attributes: client7, Costs: map[string]int64{"tokens_out": 10}, Ttl: durationpb.New(time.Hour),
	})
	if err != nil || out.GetDecision().GetAllowed() != allowed || (out.GetId() != "") != allowed {
		o.Errorf("%s: %v, %v; want allowed %v", id, out, err, allowed)
	}
	return out.GetId()
}

// settles settles a reservation, and checks the state or the code of the answer, and what came back of the slots.
func (o *slotsOutage) settles(id, want string) {
	o.Helper()
	out, err := limiterClient(o.d).Settle(o.Context(), &aliquotv1.SettleRequest{Id: id, Costs: map[string]int64{"tokens_out": 4}})
	got := out.GetState()
	if err != nil {
		got = rpcCode(err)
	}
	if got != want {
		o.Errorf("%s is settled: %s (%v), want %s", id, got, err, want)
	}
	if want == engine.StateSettled && got == want && out.GetLimits()[0].GetRefunded() != 1 {
		o.Errorf("%s: %v, want one slot back", id, out)
	}
}

// storeDecides waits until the store decides, and what was held has been handed over.
func (o *slotsOutage) storeDecides() {
	o.Helper()
	eventually(o.T, "the store decides", func() bool {
		out, err := o.d.service.Check(o.Context(), &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "other"}})
		return err == nil && out.GetMode() == modes.Store
	})
	<-time.After(3 * time.Second) // of the bubble's clock: three times until held reservations are handed over
}

func inSlotsOutage(t *testing.T, test func(o *slotsOutage)) { inOutageOf(t, slotRules, test) }

func inOutageOf(t *testing.T, rules string, test func(o *slotsOutage)) {
	inNetwork(t, func(t *testing.T) {
		o := &slotsOutage{T: t, store: &faultyStore{}}
		o.d, _ = startLive(t, testConfig(newLeader(t, rules).address()), func(d *Daemon) {
			o.store.Store = d.guard.Store
			d.guard.Store = o.store
		})
		test(o)
	})
}

// TestSlotsInAnOutage: without the store slots are given out up to the limit, and are free when they are given back, those
// too that were taken before. After it, each is in the store once, and is released there once; nobody has to settle again.
func TestSlotsInAnOutage(t *testing.T) {
	for _, fault := range []string{"stopped", "slow", "read-only"} {
		inSlotsOutage(t, func(o *slotsOutage) {
			oneCase(o.T, fault, func(*testing.T) {
				a, b := o.wants("a", true), o.wants("b", true)
				o.breaks(fault)
				o.isFelt()
				c, d := o.wants("c", true), o.wants("d", true)
				o.wants("e", false)
				o.settles(a, "unavailable")
				e := o.wants("e", true)
				o.wants("f", false)
				o.settles(c, "unavailable")
				o.settles(c, "unavailable")
				f := o.wants("f", true)
				o.wants("g", false)
				if again := o.wants("f", true); again != f {
					o.Errorf("the same request has %s and %s", f, again)
				}
				o.heals()
				o.storeDecides()
				o.wants("g", false)
				for _, id := range []string{a, c} {
					o.settles(id, engine.StateAlready)
				}
				for _, id := range []string{b, d, e, f} {
					o.settles(id, engine.StateSettled)
					o.settles(id, engine.StateAlready)
				}
				for i := range 4 {
					o.wants(fmt.Sprint("h", i), true)
				}
				o.wants("i", false)
			})
		})
	}
}

// TestSlotsThatTheStoreHeardOf: a slot whose call the store decided, although its answer came too late, is one slot.
func TestSlotsThatTheStoreHeardOf(t *testing.T) {
	inSlotsOutage(t, func(o *slotsOutage) {
		a := o.wants("a", true)
		o.breaks("slow")
		b, c := o.wants("b", true), o.wants("c", true)
		o.settles(b, "unavailable")
		o.heals()
		o.storeDecides()
		o.settles(b, engine.StateAlready)
		d, e := o.wants("d", true), o.wants("e", true)
		o.wants("f", false)
		for _, id := range []string{a, c, d, e} {
			o.settles(id, engine.StateSettled)
		}
		for i := range 4 {
			o.wants(fmt.Sprint("h", i), true)
		}
		o.wants("i", false)
	})
}

// TestSlotsInTwoOutages: a slot that was given out in an outage and is in the store since is settled in the next one; it
// counts until the store has released it.
func TestSlotsInTwoOutages(t *testing.T) {
	inSlotsOutage(t, func(o *slotsOutage) {
		o.wants("a", true)
		o.breaks("stopped")
		b := o.wants("b", true)
		o.heals()
		o.storeDecides()
		o.breaks("read-only")
		o.settles(b, "unavailable")
		o.wants("c", true)
		o.wants("d", true)
		o.heals()
		o.storeDecides()
		o.settles(b, engine.StateAlready)
		o.wants("e", true)
		o.wants("f", false)
	})
}

// TestSlotsSettledJustBeforeAnOutage are free in it: the store has said so.
func TestSlotsSettledJustBeforeAnOutage(t *testing.T) {
	inSlotsOutage(t, func(o *slotsOutage) {
		var ids []string
		for i := range 4 {
			ids = append(ids, o.wants(fmt.Sprint("a", i), true))
		}
		o.wants("b", false)
		<-time.After(time.Second)
		o.settles(ids[0], engine.StateSettled)
		<-time.After(time.Millisecond)
		o.settles(ids[1], engine.StateSettled)
		o.breaks("stopped")
		o.wants("c", true)
		o.wants("d", true)
		o.wants("e", false)
	})
}

// TestSlotsOfAStoreThatForgets: new contents are told of the slots that were in use, and those that were given out
// meanwhile can be given back; those that only the earlier contents knew count until they end.
func TestSlotsOfAStoreThatForgets(t *testing.T) {
	inSlotsOutage(t, func(o *slotsOutage) {
		a, b := o.wants("a", true), o.wants("b", true)
		o.breaks("read-only")
		c := o.wants("c", true)
		o.settles(a, "unavailable")
		d := o.wants("d", true)
		e := o.wants("e", true)
		o.wants("f", false)
		o.loses()
		o.storeDecides()
		o.wants("f", false)
		o.settles(a, "not_found")
		o.settles(b, "not_found")
		for _, id := range []string{c, d, e} {
			o.settles(id, engine.StateSettled)
		}
		for i := range 3 {
			o.wants(fmt.Sprint("g", i), true)
		}
		o.wants("h", false)
	})
}

// TestChecksTakeSlotsInAnOutage: a check takes a slot that nobody gives back, with the store and without it.
func TestChecksTakeSlotsInAnOutage(t *testing.T) {
	inOutageOf(t, strings.Replace(slotRules, "3600", "60", 1), func(o *slotsOutage) { // for a minute each
		check := func(allowed bool) {
			o.Helper()
			out, err := o.d.service.Check(o.Context(), &aliquotv1.CheckRequest{Attributes: client7})
			if err != nil || out.GetAllowed() != allowed {
				o.Errorf("%v, %v; want allowed %v", out, err, allowed)
			}
		}
		check(true)
		o.breaks("stopped")
		for range 3 {
			check(true)
		}
		check(false)
		o.heals()
		o.storeDecides()
		check(false)
		<-time.After(time.Minute)
		check(true)
	})
}
