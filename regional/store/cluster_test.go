package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/lua/redistest"
)

func openCluster(t *testing.T, c *redistest.Cluster, change ...func(*RedisConfig)) *Cluster {
	t.Helper()
	config := DefaultRedisConfig(c.URL())
	slow(&config)
	for _, f := range change {
		f(&config)
	}
	s, err := NewCluster(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func learnCluster(t *testing.T, s *Cluster) string {
	t.Helper()
	epoch, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// keyOn is a key whose slot is of a server, as slots are dealt out at the start.
func keyOn(c *redistest.Cluster, server, number int) string {
	for i := byte(0); ; i++ {
		var hash [16]byte
		hash[0], hash[1] = i, byte(number)
		name := lua.Key(limit.TokenBucket, uint32(number), hash)
		if lua.SlotOf(name)*len(c.Nodes)/lua.Slots == server {
			return name
		}
	}
}

func TestClusterURL(t *testing.T) {
	options, seeds, err := clusterOptions(DefaultRedisConfig("rediss+cluster://u:hunter2@a:1,b:2,c?client_name=x"))
	if err != nil || options.Password != "hunter2" || options.TLSConfig == nil || strings.Join(seeds, " ") != "a:1 b:2 c:6379" || options.MaxRetries != -1 {
		t.Errorf("%v, %v, %v", options, seeds, err)
	}
	for _, bad := range []string{"redis://u:hunter2@a:1", "redis+cluster://", "redis+cluster://u:hunter2@a:1,", "redis+cluster://u:hunter2@a:1/3",
		"redis+cluster://u:hunter2%zz@a:1", "redis+cluster://u:hunter2@a:1?read_timeout=1s", "http+cluster://u:hunter2@a:1"} {
		if _, err := NewCluster(DefaultRedisConfig(bad)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Requests under two limits on two servers, from many callers, while slots move to and
// fro and a server joins: exactly what both limits hold is admitted, and what was admitted
// counts in each of its limits.
func TestClusterAllOrNothing(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	const (
		pairs   = 12
		callers = 8
		each    = 400
		holds   = 100
		cost    = 3
	)
	keys := make([]string, pairs)
	admitted := make([]atomic.Int64, pairs)
	for i := range keys {
		keys[i] = keyOn(servers, i%3, i)
	}
	view := coldView(epoch, bucket(holds, 0))
	var calls sync.WaitGroup
	var failed atomic.Int64
	for caller := range callers {
		calls.Go(func() {
			random := rand.New(rand.NewPCG(uint64(caller), 7))
			for range each {
				a := random.IntN(pairs)
				b := (a + 1 + random.IntN(pairs-1)) % pairs
				group := []Group{{Cost: cost * limit.Token, Limits: []KeyView{{Key: keys[a], View: view}, {Key: keys[b], View: view}}}}
				got, _, err := s.Take(t.Context(), epoch, group)
				switch {
				case err != nil || got[0].Err != nil:
					failed.Add(1)
					t.Errorf("take: %v, %+v", err, got)
				case got[0].Allowed:
					admitted[a].Add(cost)
					admitted[b].Add(cost)
				}
			}
		})
	}
	var moves sync.WaitGroup
	stop := make(chan struct{})
	moved := 0
	moves.Go(func() {
		for round := 1; ; round++ {
			for i, name := range keys {
				from, to := (i+round-1)%3, (i+round)%3
				servers.Move(t, lua.SlotOf(name), from, to, nil)
				moved++
				select {
				case <-stop:
					return
				default:
				}
			}
		}
	})
	calls.Wait()
	close(stop)
	moves.Wait()
	if moved < pairs {
		t.Logf("only %d moves", moved)
	}
	for i, name := range keys {
		// What is left is read by a request that takes a millionth of a token.
		got, _, err := s.Take(t.Context(), epoch, []Group{{Cost: 1, Limits: []KeyView{{Key: name, View: view}}}})
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got)
		}
		left := int64(got[0].Limits[0].Tokens)
		if got[0].Allowed {
			left++
		}
		if spent := admitted[i].Load(); spent*int64(limit.Token)+left != holds*int64(limit.Token) {
			t.Errorf("limit %d: %d admitted, %d micro-tokens left of %d", i, spent, left, holds)
		}
	}
	t.Logf("%d slot moves", moved)
}

// A lost node's clients are not decided, and the others' are, at once after a few tries.
func TestClusterNodeKilled(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	view := coldView(epoch, bucket(1000, 0))
	lost, well := keyOn(servers, 1, 1), keyOn(servers, 2, 2)
	groups := func(both ...string) (out []Group) {
		for _, name := range both {
			out = append(out, one(name, 1, view)...)
		}
		return out
	}
	mixed := []Group{{Cost: limit.Token, Limits: []KeyView{{Key: lost, View: view}, {Key: well, View: view}}}}
	if got, _, err := s.Take(t.Context(), epoch, groups(lost, well)); err != nil || !got[0].Allowed || !got[1].Allowed {
		t.Fatal(got, err)
	}
	servers.Nodes[1].Kill()
	for range 20 {
		got, _, err := s.Take(t.Context(), epoch, groups(lost, well))
		if err != nil || got[0].Err == nil || got[1].Err != nil || !got[1].Allowed {
			t.Fatal(got, err)
		}
		got, _, err = s.Take(t.Context(), epoch, mixed)
		if err != nil || got[0].Err == nil || got[0].Allowed || len(got[0].Undecided) != 1 || !ChargedNothing(got[0].Undecided[0]) {
			t.Fatalf("decided without one of its nodes: %+v, %v", got, err)
		}
	}
	part, _, err := s.Reserve(t.Context(), epoch, mixed, lua.Reservation{Key: well + ":r", Text: "{}", Keep: time.Minute, Decided: true})
	if !errors.Is(err, lua.ErrPartly) || part.Results[0].Allowed || !ChargedNothing(part.Results[0].Undecided[0]) || part.Results[0].Limits[1].Tokens != (1000-21)*limit.Token {
		t.Errorf("%+v, %v: what the node that decided has is not told", part, err)
	}
	if _, _, err := s.Reserve(t.Context(), epoch, groups(well), lua.Reservation{Key: lost + ":r", Text: "{}", Keep: time.Minute, Decided: true}); !ChargedNothing(err) {
		t.Errorf("a reservation whose name is of the lost node: %v", err)
	}
	got, _, err := s.Take(t.Context(), epoch, groups(well))
	if err != nil || got[0].Limits[0].Tokens != (1000-22)*limit.Token {
		t.Fatalf("%v, %+v: what the mixed requests were charged is not back", err, got)
	}
	if _, _, err := s.Take(t.Context(), epoch, groups(lost)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	// It comes back empty: contents were lost, everywhere by one epoch.
	servers.Nodes[1].Run(t)
	redistest.Until(t, "the store says that contents were lost", func() bool {
		_, _, err := s.Take(t.Context(), epoch, groups(lost))
		_, other := errors.AsType[*EpochError](err)
		return other
	})
	var fresh string
	redistest.Until(t, "the contents are learned", func() bool {
		fresh, err = s.Epoch(t.Context())
		return err == nil
	})
	if fresh == epoch {
		t.Fatal("the same epoch after a node lost its contents")
	}
	if _, _, err := s.Take(t.Context(), epoch, groups(well)); err == nil {
		t.Fatal("the old epoch is still good on a node that lost nothing")
	}
}

// A flush of one node is the loss of contents, and one epoch is minted for all, the same
// for two daemons that do it at once.
func TestClusterFlushed(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	var told atomic.Int64
	a := openCluster(t, servers, func(c *RedisConfig) { c.OnEpoch = func(string) { told.Add(1) } })
	b := openCluster(t, servers)
	epoch := learnCluster(t, a)
	if other := learnCluster(t, b); other != epoch {
		t.Fatalf("%q and %q", epoch, other)
	}
	if err := servers.Client(1).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	view := coldView(epoch, bucket(10, 0))
	_, _, err := a.Take(t.Context(), epoch, one(keyOn(servers, 1, 1), 1, view))
	if _, other := errors.AsType[*EpochError](err); !other {
		t.Fatal(err)
	}
	if _, _, err := a.Take(t.Context(), epoch, one(keyOn(servers, 0, 1), 1, view)); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	var epochs [2]string
	for i, s := range []*Cluster{a, b} {
		both.Go(func() { epochs[i], _ = s.Epoch(context.Background()) })
	}
	both.Wait()
	if epochs[0] == epoch || epochs[0] == "" || epochs[0] != epochs[1] || told.Load() != 1 {
		t.Fatalf("%q and %q after %q, told %d times", epochs[0], epochs[1], epoch, told.Load())
	}
	if _, ok := limit.EpochBirth(epochs[0]); !ok {
		t.Fatalf("epoch %q", epochs[0])
	}
}

// The mark of a lease keeps a daemon without one off the floor, and the first one is not
// good before older readings of it are over.
func TestClusterHeard(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	a, b := openCluster(t, servers), openCluster(t, servers)
	epoch := learnCluster(t, a)
	learnCluster(t, b)
	v := coldView(epoch, bucket(10, 0))
	v.Phase, v.Since, v.HeardWait = limit.Floor, 1, time.Hour.Microseconds()
	v.Hot, v.Gen, v.Share = true, 1, bucket(4, 0)
	name := keyOn(servers, 1, 1)
	if applied, _, err := b.Apply(t.Context(), epoch, []Change{{Key: name, Change: limit.Change{View: coldView(epoch, bucket(10, 0)), Gen: 1, Share: bucket(4, 0)}}}); err != nil || applied[0].Stale {
		t.Fatal(applied, err)
	}
	inForce := func() limit.Tokens {
		t.Helper()
		got, _, err := b.Take(t.Context(), epoch, one(name, 1, v))
		if err != nil {
			t.Fatal(err)
		}
		return got[0].Limits[0].Bucket.Cap
	}
	if at := inForce(); at != 10*limit.Token {
		t.Fatalf("nobody was heard, yet %d are in force", at)
	}
	began := time.Now()
	if _, _, err := a.ApplyLease(t.Context(), epoch, nil); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < heardLag {
		t.Fatalf("the first lease took %v", took)
	}
	if at := inForce(); at != 4*limit.Token {
		t.Fatalf("the region was just heard, yet %d are in force", at)
	}
	servers.Nodes[0].Kill()
	if _, _, err := a.ApplyLease(t.Context(), epoch, []Change{}); err == nil {
		t.Log("a lease without the home slot")
	}
	if at := inForce(); at != 4*limit.Token {
		t.Fatalf("two of three copies say when the region was heard, yet %d are in force", at)
	}
	servers.Nodes[2].Kill()
	if at := inForce(); at != 4*limit.Token {
		t.Fatalf("nobody can say whether the region was heard, yet %d are in force", at)
	}
}

// Records keep their text when their slot moves, and a script with a new record waits for
// the move to end.
func TestClusterSlotInMove(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	view := coldView(epoch, bucket(10, 0))
	name := keyOn(servers, 0, 1)
	for range 3 {
		if _, _, err := s.Take(t.Context(), epoch, one(name, 1, view)); err != nil {
			t.Fatal(err)
		}
	}
	fresh := strings.Replace(name, "}:1:", "}:77:", 1)
	refused := make(chan error, 1)
	once := sync.Once{}
	servers.Move(t, lua.SlotOf(name), 0, 1, func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, _, err := s.Take(ctx, epoch, one(fresh, 1, view))
			refused <- err
		})
	})
	if err := <-refused; err == nil {
		t.Error("a new record was made in a slot that is on its way")
	}
	for _, left := range []struct {
		name   string
		tokens limit.Tokens
	}{{name, 6}, {fresh, 9}} {
		got, _, err := s.Take(t.Context(), epoch, one(left.name, 1, view))
		if err != nil || got[0].Limits[0].Tokens != left.tokens*limit.Token {
			t.Fatalf("%s: %+v, %v; want %d left", left.name, got, err, left.tokens)
		}
	}
}

// A reservation whose limits stand on several servers is made once and settled once.
func TestClusterReserve(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	view := coldView(epoch, bucket(10, 0))
	group := []Group{{Cost: 6 * limit.Token, Limits: []KeyView{{Key: keyOn(servers, 0, 1), View: view}, {Key: keyOn(servers, 1, 2), View: view}}}}
	r := lua.Reservation{Key: lua.ReservationKey([16]byte{9}), Text: "mine", Keep: time.Minute, Decided: true}
	made, _, err := s.Reserve(t.Context(), epoch, group, r)
	if err != nil || made.Earlier != nil || !made.Results[0].Allowed {
		t.Fatal(made, err)
	}
	again, _, err := s.Reserve(t.Context(), epoch, group, r)
	if err != nil || again.Earlier == nil || again.Earlier.Text != "mine" {
		t.Fatal(again, err)
	}
	other := r
	other.Key = lua.ReservationKey([16]byte{8})
	if denied, _, err := s.Reserve(t.Context(), epoch, group, other); err != nil || denied.Results[0].Allowed {
		t.Fatal(denied, err)
	}
	if kept, err := s.Reservation(t.Context(), other.Key); err != nil || kept != nil {
		t.Fatalf("a denied reservation is remembered: %v, %v", kept, err)
	}
	end := lua.Settlement{Key: r.Key, Was: again.Earlier, Ends: again.Earlier.At + time.Minute.Microseconds(), Note: "done"}
	for _, l := range group[0].Limits {
		end.Parts = append(end.Parts, lua.Part{Key: l.Key, Adjustment: limit.Adjustment{
			View: l.View, At: again.Earlier.At, Reserved: 6 * limit.Token, Used: 2 * limit.Token, Debt: 10 * limit.Token}})
	}
	settled, _, err := s.Settle(t.Context(), epoch, end)
	if err != nil || settled.Changed || settled.Adjusted[0].Refunded != 4*limit.Token || settled.Adjusted[1].Tokens != 8*limit.Token {
		t.Fatalf("%+v, %v", settled, err)
	}
	if twice, _, err := s.Settle(t.Context(), epoch, end); err != nil || !twice.Changed {
		t.Fatalf("settled twice: %+v, %v", twice, err)
	}
	kept, err := s.Reservation(t.Context(), r.Key)
	settled.Adjusted[1].At = kept.SettledAt // one instant is kept for all limits
	if err != nil || !kept.Settled || kept.Note != "done" || kept.Adjusted[1] != settled.Adjusted[1] {
		t.Fatalf("%+v, %v", kept, err)
	}
}

// TestClusterSettlesOnlyTheContentsItKnows: the node of a reservation has other contents than those of its limits. It
// may have lost that the reservation was settled before.
func TestClusterSettlesOnlyTheContentsItKnows(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	view := coldView(epoch, bucket(10, 0))
	name := [16]byte{9}
	for lua.SlotOf(lua.ReservationKey(name))*3/lua.Slots != 1 {
		name[1]++
	}
	r := lua.Reservation{Key: lua.ReservationKey(name), Text: "mine", Keep: time.Minute, Decided: true}
	if made, _, err := s.Reserve(t.Context(), epoch, one(keyOn(servers, 0, 1), 6, view), r); err != nil || !made.Results[0].Allowed {
		t.Fatal(made, err)
	}
	kept, err := s.Reservation(t.Context(), r.Key)
	if err != nil {
		t.Fatal(err)
	}
	end := lua.Settlement{Key: r.Key, Was: kept, Ends: kept.At + time.Minute.Microseconds(), Note: "done", Parts: []lua.Part{{
		Key: keyOn(servers, 0, 1), Adjustment: limit.Adjustment{View: view, At: kept.At, Reserved: 6 * limit.Token},
	}}}
	if err := servers.Client(1).Set(t.Context(), s.epochs[lua.SlotOf(r.Key)], "another", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if out, _, err := s.Settle(t.Context(), epoch, end); !errors.As(err, new(*EpochError)) {
		t.Fatalf("settled: %+v, %v", out, err)
	}
	if now, err := s.Reservation(t.Context(), r.Key); err != nil || now.Settled {
		t.Errorf("it is marked: %+v, %v", now, err)
	}
	if got, _, err := s.Take(t.Context(), epoch, one(keyOn(servers, 0, 1), 1, view)); err != nil || got[0].Limits[0].Tokens != 3*limit.Token {
		t.Errorf("something was given back: %+v, %v", got, err)
	}
}

// A check of one server, and one of one client's limits in a cluster, is one script call.
func TestOneCall(t *testing.T) {
	server := redistest.Start(t)
	single := openRedis(t, server)
	servers := redistest.StartCluster(t, 3)
	cluster := openCluster(t, servers)
	for what, s := range map[string]struct {
		store anyStore
		epoch string
		nodes []*redis.Client
	}{
		"single":  {single, learn(t, single), []*redis.Client{server.Client(t)}},
		"cluster": {cluster, learnCluster(t, cluster), []*redis.Client{servers.Client(0), servers.Client(1), servers.Client(2)}},
	} {
		view := coldView(s.epoch, bucket(10, 0))
		group := []Group{{Cost: limit.Token}}
		for rule := range uint32(3) {
			group[0].Limits = append(group[0].Limits, KeyView{Key: lua.Key(limit.TokenBucket, rule, [16]byte{1}), View: view})
		}
		for range 2 { // the first one brings the script
			for _, node := range s.nodes {
				if err := node.ConfigResetStat(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if got, _, err := s.store.Take(t.Context(), s.epoch, group); err != nil || !got[0].Allowed {
				t.Fatal(what, got, err)
			}
		}
		calls := 0
		for _, node := range s.nodes {
			stats, err := node.Info(t.Context(), "commandstats").Result()
			if err != nil {
				t.Fatal(err)
			}
			calls += strings.Count(stats, "cmdstat_evalsha:calls=1,") + 10*strings.Count(stats, "cmdstat_eval:")
		}
		if calls != 1 {
			t.Errorf("%s: %d script calls", what, calls)
		}
	}
}

// Callers that make one reservation at once, of nearly all that there is, hear of one that
// was made: none is denied for what another of them holds for a moment.
func TestClusterReserveAtOnce(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	view := coldView(epoch, bucket(10, 0))
	group := []Group{{Cost: 6 * limit.Token, Limits: []KeyView{{Key: keyOn(servers, 0, 1), View: view}, {Key: keyOn(servers, 1, 2), View: view}}}}
	for round := range byte(5) {
		r := lua.Reservation{Key: lua.ReservationKey([16]byte{round}), Text: "mine", Keep: time.Minute, Decided: true}
		var calls sync.WaitGroup
		var made, earlier atomic.Int64
		for range 16 {
			calls.Go(func() {
				switch out, _, err := s.Reserve(t.Context(), epoch, group, r); {
				case err != nil:
					t.Error(err)
				case out.Earlier != nil:
					earlier.Add(1)
				case out.Results[0].Allowed:
					made.Add(1)
				}
			})
		}
		calls.Wait()
		want := int64(1)
		if round > 0 {
			want = 0 // the first one holds most of it
		}
		if made.Load() != want || earlier.Load() != 15*want {
			t.Fatalf("round %d: %d made it, %d heard of it", round, made.Load(), earlier.Load())
		}
	}
}
