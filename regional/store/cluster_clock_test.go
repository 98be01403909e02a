package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/lua/redistest"
	"aliquot/regional/store/breaker"
)

// TestClusterClocks: each limit of a request comes with the clock of the node that decided
// it, and the call with the latest of them.
func TestClusterClocks(t *testing.T) {
	clocks := []int64{5_000_000, 4_900_000, 5_100_000}
	made := &taken{groups: make([]Group, 2)}
	made.groups[0].Limits, made.groups[1].Limits = make([]KeyView, 2), make([]KeyView, 1)
	for i, p := range []slotGroup{{group: 0, limits: []int{1}}, {group: 0, limits: []int{0}}, {group: 1, limits: []int{0}}} {
		made.bundles = append(made.bundles, &bundle{
			pieces: []slotGroup{p}, now: clocks[i], out: []Result{{Allowed: true, Limits: make([]limit.Outcome, 1)}},
		})
	}
	if err := made.merge(false); err != nil {
		t.Fatal(err)
	}
	one, other := made.results[0].Clocks, made.results[1].Clocks
	if !slices.Equal(one, []int64{4_900_000, 5_000_000}) || !slices.Equal(other, []int64{5_100_000}) || made.now != 5_100_000 {
		t.Errorf("%v and %v, the call at %d", one, other, made.now)
	}
}

// TestClusterTellsItsClocks, of real nodes.
func TestClusterTellsItsClocks(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	view := coldView(epoch, bucket(10, 0))
	group := []Group{{Cost: limit.Token}}
	for server := range 3 {
		group[0].Limits = append(group[0].Limits, KeyView{Key: keyOn(servers, server, server), View: view})
	}
	got, now, err := s.Take(t.Context(), epoch, group)
	if err != nil || len(got[0].Clocks) != 3 || slices.Min(got[0].Clocks) <= 0 || slices.Max(got[0].Clocks) != now {
		t.Errorf("%+v at %d, %v", got, now, err)
	}
	group[0].Limits = group[0].Limits[:1]
	if got, now, err = s.Take(t.Context(), epoch, group); err != nil || got[0].Clocks != nil || got[0].Clock(0, now) != now {
		t.Errorf("%+v at %d, %v", got, now, err)
	}
}

// TestClusterDatesEachAnswer: a change, and an adjustment, is dated by the clock of the node that made it.
func TestClusterDatesEachAnswer(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	view := coldView(epoch, bucket(10, 0))
	var changes []Change
	var parts []lua.Part
	for server := range 3 {
		changes = append(changes, Change{Key: keyOn(servers, server, 1), Change: limit.Change{View: view, Gen: 1, Share: bucket(10, 0)}})
		parts = append(parts, lua.Part{Key: keyOn(servers, server, 2), Adjustment: limit.Adjustment{View: view, Used: limit.Token}})
	}
	recorded := func(server int, key string) int64 {
		t.Helper()
		text, err := servers.Client(server).Get(t.Context(), key).Result()
		r, ok := lua.ParseRecord(limit.TokenBucket, text)
		if err != nil || !ok {
			t.Fatal(text, err)
		}
		return r.At
	}
	applied, now, err := s.Apply(t.Context(), epoch, changes)
	if err != nil {
		t.Fatal(err)
	}
	latest := int64(0)
	for server, a := range applied {
		latest = max(latest, a.At)
		if at := recorded(server, changes[server].Key); a.At != at {
			t.Errorf("node %d: a change at %d is dated %d", server, at, a.At)
		}
	}
	if now != latest {
		t.Errorf("the clock of the call is %d, that of its latest change %d", now, latest)
	}
	adjusted, err := s.Adjust(t.Context(), epoch, parts)
	if err != nil {
		t.Fatal(err)
	}
	for server, a := range adjusted {
		if at := recorded(server, parts[server].Key); a.At != at {
			t.Errorf("node %d: an adjustment at %d is dated %d", server, at, a.At)
		}
	}
}

// TestAReservationIsAsOldAsItsFirstCharge: what was charged in the window before is not given back in the
// present one, where another node decided.
func TestAReservationIsAsOldAsItsFirstCharge(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	group := []Group{{Cost: limit.Token}}
	for server := range servers.Nodes {
		group[0].Limits = append(group[0].Limits, KeyView{Key: keyOn(servers, server, server), View: coldView(epoch, bucket(10, 0))})
	}
	r := lua.Reservation{Key: lua.ReservationKey([16]byte{9}), Text: "mine", Keep: time.Minute, Decided: true}
	made, now, err := s.Reserve(t.Context(), epoch, group, r)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.Reservation(t.Context(), r.Key)
	if clocks := made.Results[0].Clocks; err != nil || kept.At != slices.Min(clocks) || now != slices.Max(clocks) {
		t.Errorf("charged at %v, kept as of %d, answered at %d, %v", clocks, kept.At, now, err)
	}
}

// TestALateCallTellsTheClock of its node, as any other call does.
func TestALateCallTellsTheClock(t *testing.T) {
	for _, c := range []struct {
		reply []any
		want  int64
	}{
		{[]any{int64(50), "packed"}, 40}, {[]any{int64(-2), int64(50)}, 40}, {[]any{int64(-4), int64(50)}, 40},
		{[]any{int64(-1), ""}, 0}, {[]any{int64(-3), "what is kept"}, 0}, {[]any{int64(-2)}, 0}, {nil, 0},
	} {
		j := &job{by: &node{}, sent: 10, received: 10}
		newNodes(nil, nil).readClock(j, c.reply)
		if low, high, known := j.by.clock.bounds(); low != c.want || high != c.want || known != (c.want != 0) {
			t.Errorf("%v: between %d and %d ahead", c.reply, low, high)
		}
	}
}

// slowClock answers TIME instead of a server: the first time after 700 ms, then after 1 ms.
type slowClock struct{ asked int }

func (c *slowClock) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *slowClock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (c *slowClock) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		wait := time.Millisecond
		if c.asked++; c.asked == 1 {
			wait = 700 * time.Millisecond
		}
		cmd.(*redis.TimeCmd).SetVal(time.Now())
		return pause(ctx, wait)
	}
}

// TestASlowAnswerIsNoReadingOfAClock: the node is asked again.
func TestASlowAnswerIsNoReadingOfAClock(t *testing.T) {
	c, to := &slowClock{}, &node{queries: redis.NewClient(&redis.Options{})}
	defer to.queries.Close()
	to.queries.AddHook(c)
	synctest.Test(t, func(t *testing.T) {
		s := &Cluster{nodes: newNodes(nil, nil)}
		_, err := s.askClock(t.Context(), to)
		if low, high, _ := to.clock.bounds(); err != nil || c.asked != 2 || high-low != 1000 {
			t.Errorf("asked %d times, between %d and %d ahead, %v", c.asked, low, high, err)
		}
	})
}

// TestASilentNodesClockDoesNotCount while it gets no calls.
func TestASilentNodesClockDoesNotCount(t *testing.T) {
	well, silent := &node{addr: "a"}, &node{addr: "b"}
	well.clock.add(20, 10, 11)
	silent.clock.add(900, 10, 11)
	n := newNodes(nil, nil)
	n.known = map[string]*node{"a": well, "b": silent}
	for failed, want := range map[int]int64{breaker.TripAfter - 1: 890, breaker.TripAfter: 10} {
		fail(silent, failed)
		if low, high, known := n.clockBounds(); low != 9 || high != want || !known {
			t.Errorf("after %d failures all clocks are between %d and %d ahead", failed, low, high)
		}
	}
}

// fail makes a node one that failed some calls in a row.
func fail(to *node, calls int) {
	to.breaker = breaker.Breaker{}
	for range calls {
		_ = to.breaker.Enter(time.Now(), true)
		to.breaker.Leave(time.Now(), true, 0, time.Second)
	}
}

// TestTheClockOfANodeThatLostItsSlotsDoesNotCount: nobody reads it any more, so it would be wrong once clocks are set.
func TestTheClockOfANodeThatLostItsSlotsDoesNotCount(t *testing.T) {
	well, replaced := &node{addr: "a"}, &node{addr: "b"}
	well.clock.add(20, 10, 11)
	replaced.clock.add(900, 10, 11)
	fail(replaced, breaker.TripAfter)
	s := &Cluster{nodes: newNodes(nil, nil)}
	s.nodes.known = map[string]*node{"a": well, "b": replaced}
	s.nodes.owners[0].Store(well)
	if !s.answers(replaced) || replaced.breaker.Open() {
		t.Error("a node without slots is tried")
	}
	if low, high, known := s.nodes.clockBounds(); low != 9 || high != 10 || !known {
		t.Errorf("all clocks are between %d and %d ahead", low, high)
	}
}

// TestANodeWhoseClockIsNotKnownGetsNoCalls: views are not made correct for it. It charges once it was learned.
func TestANodeWhoseClockIsNotKnownGetsNoCalls(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	key := keyOn(servers, 1, 1)
	group := one(key, 1, coldView(epoch, bucket(10, 0)))
	s.nodes.owners[lua.SlotOf(key)].Load().clock.forget()
	if _, _, err := s.Take(t.Context(), epoch, group); !errors.As(err, new(*EpochError)) {
		t.Errorf("before its clock is known: %v", err)
	}
	if again := learnCluster(t, s); again != epoch {
		t.Errorf("the contents %s became %s", epoch, again)
	}
	if got, _, err := s.Take(t.Context(), epoch, group); err != nil || got[0].Limits[0].Tokens != 9*limit.Token {
		t.Errorf("after that: %+v, %v", got, err)
	}
}

// takesOn returns a function that takes a token of a key of a node, with a deadline that the nodes' clocks
// are far from. It has done so once for each node.
func takesOn(t *testing.T, servers *redistest.Cluster, s *Cluster) func(node int) error {
	t.Helper()
	epoch := learnCluster(t, s)
	take := func(node int) error {
		v := coldView(epoch, bucket(100, 0))
		v.Deadline = time.Now().Add(10 * time.Minute).UnixMicro()
		_, _, err := s.Take(t.Context(), epoch, one(keyOn(servers, node, node), 1, v))
		return err
	}
	for node := range servers.Nodes {
		if err := take(node); err != nil {
			t.Fatal(err)
		}
	}
	return take
}

// setClocks sets the clocks of all nodes forward, as the store sees them. Node 0 answers afterwards.
func setClocks(t *testing.T, s *Cluster, take func(node int) error) {
	t.Helper()
	s.nodes.start = s.nodes.start.Add(time.Hour)
	if err := take(0); err != nil {
		t.Fatal(err)
	}
	if err := take(1); !errors.As(err, new(*lua.LateError)) {
		t.Fatalf("once the clock of one node was read: %v", err)
	}
}

// TestClocksThatAreSetTogether are read again together: the answers of one node do not make the calls of
// the others late for ever.
func TestClocksThatAreSetTogether(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	take := takesOn(t, servers, s)
	setClocks(t, s, take)
	s.background.Wait()
	for node := range servers.Nodes {
		if err := take(node); err != nil {
			t.Errorf("node %d: %v", node, err)
		}
	}
}

// TestClocksThatAreSetWhileANodeIsLost: the calls of the others go on, although no call finds out that the
// node is lost.
func TestClocksThatAreSetWhileANodeIsLost(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	take := takesOn(t, servers, s)
	servers.Nodes[2].Kill()
	setClocks(t, s, take)
	redistest.Until(t, "the calls of the others are decided", func() bool { return take(0) == nil && take(1) == nil })
}

// TestClocksThatAreSetAfterAFailover: a node was lost and its replica took over. The calls of all nodes go on,
// although nobody can read the clock of the lost node.
func TestClocksThatAreSetAfterAFailover(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	_, client, _ := servers.Replica(t, 2)
	s := openCluster(t, servers)
	take, lost := takesOn(t, servers, s), s.nodes.owners[lua.SlotOf(keyOn(servers, 2, 2))].Load()
	servers.Nodes[2].Kill()
	_ = take(2)
	redistest.Until(t, "the replica has the slots", func() bool {
		_ = client.Do(t.Context(), "cluster", "failover", "takeover").Err()
		role, err := client.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(role, "role:master")
	})
	redistest.Until(t, "the store knows it", func() bool { return errors.As(take(2), new(*EpochError)) && s.nodes.slotOf(lost) < 0 })
	take = takesOn(t, servers, s)
	s.background.Wait() // the lost node is tried no more
	setClocks(t, s, take)
	redistest.Until(t, "the calls of all nodes are decided", func() bool { return take(0) == nil && take(1) == nil && take(2) == nil })
}
