package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/lua/redistest"
)

// TestSpreadIsNotDisturbed: an epoch that another daemon gives to the slots is waited for
// while more of them get it, however long that takes, and no longer than createWithin once
// none does.
func TestSpreadIsNotDisturbed(t *testing.T) {
	const birth = 1_700_000_000_000_000
	within := createWithin.Microseconds()
	epoch := fmt.Sprintf("0123456789abcdef:fedcba9876543210:%d", birth)
	looks := []struct {
		slots int
		now   int64
		over  bool
	}{
		{100, birth + within/2, false},
		{200, birth + within, false},
		{300, birth + 2*within, false},    // older than that, and on its way
		{300, birth + 3*within, false},    // the last one came that long ago
		{300, birth + 3*within + 1, true}, // the server that gave it is gone
		{301, birth + 4*within, false},    // or was slow
		{200, birth + 5*within, false},    // a node was flushed:
		{200, birth + 6*within + 1, true}, // fewer are no sign of life
	}
	s := propagation{epoch: epoch, slots: 1, grewAt: birth}
	for i, look := range looks {
		if s.observe(standing(epoch, look.slots, look.now)); s.ended(standing(epoch, look.slots, look.now)) != look.over {
			t.Errorf("look %d, %d slots at %d: over %t", i, look.slots, look.now-birth, !look.over)
		}
	}
}

// TestSpreadAtFirstSight: who comes while an epoch is in some slots and not in others
// waits to see whether it goes on, unless nobody can be at it any more.
func TestSpreadAtFirstSight(t *testing.T) {
	const birth = 1_700_000_000_000_000
	within := createWithin.Microseconds()
	epoch := fmt.Sprintf("0123456789abcdef:fedcba9876543210:%d", birth)
	cases := map[string]struct {
		spread     propagation
		first, now int64 // since the epoch's birth
		over       bool
	}{
		"young":                   {now: within},
		"older":                   {first: 3 * within, now: 4 * within},
		"older, and at rest":      {first: 3 * within, now: 5*within + 1, over: true},
		"older than any mint":     {first: learnWithin.Microseconds(), now: learnWithin.Microseconds(), over: true},
		"of the future":           {first: -1, now: -1 - within, over: true},
		"one's own that failed":   {spread: propagation{failed: epoch}, now: 1, over: true},
		"another's, after that":   {spread: propagation{failed: "another"}, now: 1},
		"whole before: a flush":   {spread: propagation{epoch: epoch, slots: lua.Slots, grewAt: birth}, first: within, now: within + 1, over: true},
		"whole before, but young": {spread: propagation{epoch: epoch, slots: lua.Slots, grewAt: birth}, first: 1, now: within},
	}
	for name, c := range cases {
		c.spread.observe(standing(epoch, 100, birth+c.first))
		now := standing(epoch, 100, birth+c.now)
		if c.spread.observe(now); c.spread.ended(now) != c.over {
			t.Errorf("%s: over %t", name, !c.over)
		}
	}
}

// standing is an epoch that so many slots have.
func standing(epoch string, slots int, now int64) *contents {
	found := &contents{now: now}
	for slot := range slots {
		found.epochs[(homeSlot+slot)%len(found.epochs)] = epoch
	}
	return found
}

// TestOvertakenMint: a daemon whose epoch was replaced in the home slot while it gave it to
// the others has no epoch.
func TestOvertakenMint(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	const other = "0000000000000000:0000000000000000:1"
	home := servers.Client(0)
	redistest.Until(t, "a mint is overtaken, and says so", func() bool {
		was, err := s.survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, minted := context.WithCancel(t.Context())
		var overtaker sync.WaitGroup
		overtaker.Go(func() {
			for ctx.Err() == nil {
				now, err := home.Get(ctx, s.epochs[homeSlot]).Result()
				if err != nil && !errors.Is(err, redis.Nil) || now == was.epochs[homeSlot] {
					continue
				}
				if err := home.Set(t.Context(), s.epochs[homeSlot], other, 0).Err(); err != nil {
					t.Error(err)
				}
				return
			}
		})
		epoch, err := s.createEpoch(t.Context(), was)
		minted()
		overtaker.Wait()
		return err == nil && epoch == ""
	})
}

// TestOnesOwnMintIsWhole: a daemon that has given its epoch to every slot waits for nobody
// when one of them loses it.
func TestOnesOwnMintIsWhole(t *testing.T) {
	s := openCluster(t, redistest.StartCluster(t, 3))
	var epoch string
	redistest.Until(t, "an epoch is minted", func() bool {
		was, err := s.survey(t.Context())
		if err == nil {
			epoch, err = s.createEpoch(t.Context(), was)
		}
		return err == nil && epoch != ""
	})
	birth, _ := limit.EpochBirth(epoch)
	lost := standing(epoch, lua.Slots-1, birth+2*createWithin.Microseconds())
	s.propagation.observe(lost)
	if !s.propagation.ended(lost) {
		t.Errorf("%+v waits for itself", s.propagation)
	}
}

// TestWhoeverAsksNextFindsWhatWasLearned: callers have less time than learning may take.
func TestWhoeverAsksNextFindsWhatWasLearned(t *testing.T) {
	s := openCluster(t, redistest.StartCluster(t, 3))
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	var learned *learning
	redistest.Until(t, "something was learned that nobody waited for", func() bool {
		_, _ = s.Epoch(hurried)
		s.mu.Lock()
		defer s.mu.Unlock()
		if learned = s.learned; learned == nil || learned.err != nil {
			return false
		}
		learned.ended = time.Now().Add(time.Hour)
		return true
	})
	if epoch := learnCluster(t, s); epoch == "" || epoch != learned.epoch {
		t.Errorf("%q after %q", epoch, learned.epoch)
	}
	s.mu.Lock()
	if s.learned != nil || s.learning != nil {
		t.Error("what was learned was not taken, or it was learned again")
	}
	s.mu.Unlock()
	learnCluster(t, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.learned != nil {
		t.Error("what was taken is kept")
	}
}

// TestALearningThatFailedStands for a while: the next callers get its failure, and nobody asks the nodes.
func TestALearningThatFailedStands(t *testing.T) {
	s := clusterOfNobody(t)
	learn := func() *learning {
		if _, err := s.Epoch(t.Context()); err == nil {
			t.Fatal("learned from no server")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.learned
	}
	first := learn()
	first.ended = time.Now().Add(time.Hour)
	if learn() != first {
		t.Error("the next caller asks again")
	}
	first.ended = time.Now().Add(-failedFor)
	if learn() == first {
		t.Error("it stands for ever")
	}
}

// TestDaemonsThatKnowOtherImporters: answers named one server without slots to one daemon, and another one to the
// other. Once each has learned, the contents are the same to both.
func TestDaemonsThatKnowOtherImporters(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	a, b := openCluster(t, servers), openCluster(t, servers)
	for _, s := range []*Cluster{a, b} {
		learnCluster(t, s)
		s.nodes.at(servers.Client(servers.Join(t)).Options().Addr).imports.Store(true)
	}
	learnCluster(t, a)
	epoch := learnCluster(t, b)
	for range 3 {
		if one, other := learnCluster(t, a), learnCluster(t, b); one != epoch || other != epoch {
			t.Errorf("the contents %s are %s and %s", epoch, one, other)
		}
	}
}

// TestAServerWithSlotsIsNoImporter, also once it has lost them again.
func TestAServerWithSlotsIsNoImporter(t *testing.T) {
	n := newNodes(&redis.Options{}, nil)
	defer n.close()
	one, other := n.at("a:1"), n.at("b:1")
	other.imports.Store(true)
	for _, owner := range []*node{other, one} {
		n.setOwners(one, []redis.ClusterSlot{{End: lua.Slots - 1, Nodes: []redis.ClusterNode{{Addr: owner.addr}}}})
		if got := n.importers(); len(got) != 0 {
			t.Errorf("with the slots at %s, %s imports", owner.addr, got[0].addr)
		}
	}
}

// info answers the questions of what a server is; one that hangs answers none.
type info struct{ hangs bool }

func (info) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (info) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (i info) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if i.hangs {
			<-ctx.Done()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		cmds[0].(*redis.StringCmd).SetVal("run_id:0123456789abcdef\r\n")
		return nil
	}
}

// TestAnImporterIsVouchedWhileOthersHang: each has time of its own.
func TestAnImporterIsVouchedWhileOthersHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Cluster{nodes: newNodes(&redis.Options{}, nil), callTimeout: time.Second}
		defer s.nodes.close()
		for i := range 50 {
			one := s.nodes.at(fmt.Sprintf("127.0.0.1:%d", 1+i))
			one.imports.Store(true)
			one.queries.AddHook(info{hangs: i > 0})
		}
		found := &contents{}
		if s.askImporters(t.Context(), found); !slices.Equal(found.importers, []string{"0123456789abcdef"}) {
			t.Errorf("%q are vouched", found.importers)
		}
	})
}
