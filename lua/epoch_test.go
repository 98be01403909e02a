package lua

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"aliquot/internal/roster"
	"aliquot/limit"
	"aliquot/lua/redistest"
)

// follow makes a server a replica, in step, of another one.
func follow(t *testing.T, replica *redis.Client, primary *redistest.Server) {
	t.Helper()
	if err := replica.ReplicaOf(t.Context(), "127.0.0.1", primary.Port()).Err(); err != nil {
		t.Fatal(err)
	}
	redistest.InStep(t, replica, primary.Client(t))
}

// promote makes a replica a primary, of what it has.
func promote(t *testing.T, replica *redis.Client) {
	t.Helper()
	if err := replica.ReplicaOf(t.Context(), "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
}

// spend takes a token of a bucket of 100 that does not refill by the epoch of some contents.
func spend(t *testing.T, s *Scripts, epoch string) (left limit.Tokens, err error) {
	t.Helper()
	view := limit.View{
		Floor: limit.Bucket{Cap: 100 * limit.Token}, Phase: limit.Live, Until: limit.MaxExact, Stamp: limit.Stamp(epoch), Cost: limit.Token,
	}
	var hash [16]byte
	got, _, err := s.Take(t.Context(), epoch, []Group{{Cost: limit.Token, Limits: []KeyView{{Key: Key(limit.TokenBucket, 1, hash), View: view}}}})
	if err != nil {
		return 0, err
	}
	return got[0].Limits[0].Tokens / limit.Token, nil
}

// learnt is the epoch of the contents behind a client.
func learnt(t *testing.T, c *redis.Client, nonce string) string {
	t.Helper()
	epoch, err := LearnEpoch(t.Context(), c, nonce, nil)
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// TestAPromotedServerHasOtherContents: a primary fails over, follows its replica, and takes
// over again in the same process and with the same connections, without the latest writes.
// The epoch stands in both servers all the time, and nothing is spent by it after a promotion; nor is the
// list of daemons read.
func TestAPromotedServerHasOtherContents(t *testing.T) {
	first, second := redistest.Start(t), redistest.Start(t)
	m, r := first.Client(t), second.Client(t)
	follow(t, r, first)
	onM, onR := New(m), New(r)
	epoch := learnt(t, m, "a")
	if left, err := spend(t, onM, epoch); err != nil || left != 99 {
		t.Fatalf("%d left, %v", left, err)
	}
	refused := func(s *Scripts, epoch, what string) {
		t.Helper()
		if left, err := spend(t, s, epoch); !errors.As(err, new(*EpochError)) {
			t.Errorf("%s: %d left, %v", what, left, err)
		}
		if list, err := s.Roster(t.Context(), epoch, roster.Call{Self: 7}); !errors.As(err, new(*EpochError)) {
			t.Errorf("%s: the daemons %+v, %v", what, list, err)
		}
	}
	if err := m.Do(t.Context(), "wait", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	promote(t, r)
	refused(onR, epoch, "by the epoch of before on the promoted replica")
	next := learnt(t, r, "b")
	if left, err := spend(t, onR, next); err != nil || next == epoch {
		t.Fatalf("%d left on the promoted replica by %s after %s, %v", left, next, epoch, err)
	}
	follow(t, m, second)
	if err := m.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil { // nobody: it hears of no more writes
		t.Fatal(err)
	}
	for range 60 {
		if _, err := spend(t, onR, next); err != nil {
			t.Fatal(err)
		}
	}
	promote(t, m)
	if found := m.Get(t.Context(), EpochKey).Val(); found != next {
		t.Fatalf("it has the epoch %s, want %s", found, next)
	}
	refused(onM, next, "by the epoch of the replica on the primary that took over again")
	last := learnt(t, m, "c")
	if left, err := spend(t, onM, last); err != nil || last == next {
		t.Errorf("%d left by %s after %s, %v", left, last, next, err)
	}
	if again := learnt(t, m, "d"); again != last {
		t.Errorf("it has the epoch %s and then %s", last, again)
	}
}

// TestAFirstReplicaLosesNothing: a server that gets its first replica has another id for its
// writes, and the contents that it had.
func TestAFirstReplicaLosesNothing(t *testing.T) {
	first, second := redistest.Start(t), redistest.Start(t)
	m := first.Client(t)
	s, epoch := New(m), learnt(t, m, "a")
	follow(t, second.Client(t), first)
	if left, err := spend(t, s, epoch); err != nil || left != 99 || learnt(t, m, "b") != epoch {
		t.Errorf("%d left, %v", left, err)
	}
}

// TestNamesOfContents: an epoch is of the servers that it names, and of no promotion that
// it does not.
func TestNamesOfContents(t *testing.T) {
	const promoted = "n:run1-01234567-89abcdef:5"
	for _, c := range []struct {
		epoch, servers string
		promotions     []string
		want           bool
	}{
		{"n:run1:5", "run1", nil, true},
		{"n:run1:5", "run1", []string{""}, true},
		{"n:run1:5", "run2", nil, false},
		{"n:run1:5", "run1", []string{"-01234567"}, false},
		{promoted, "run1", []string{"-89abcdef", "-01234567"}, true},
		{promoted, "run1", []string{""}, true}, // the server has forgotten it
		{promoted, "run1", []string{"-76543210"}, false},
		{"n:run1", "run1", nil, false},
		{"", "", nil, false},
	} {
		if got := Names(c.epoch, c.servers, c.promotions...); got != c.want {
			t.Errorf("%q names %s%q: %t", c.epoch, c.servers, c.promotions, got)
		}
	}
	for _, c := range []struct {
		before     string
		promotions []string
		want       string
	}{
		{"", []string{"-b", "-a"}, "run1-b-a"},
		{"n:run1:5", nil, "run1"},
		{"n:run1-d-a:5", []string{"-a", "-b"}, "run1-a-b-d"},
		{"n:run2-d:5", []string{"-a"}, "run1-a"}, // other servers
		{"n:run1" + strings.Repeat("-d", maxKept+1) + ":5", []string{"-a"}, "run1-a" + strings.Repeat("-d", maxKept)},
	} {
		if got := Name(c.before, "run1", c.promotions); got != c.want {
			t.Errorf("after %q: %s", c.before, got)
		}
	}
	const zeros = "0000000000000000000000000000000000000000"
	for info, want := range map[string]string{
		"role:master\r\nmaster_replid2:" + zeros + "\r\n": "", "role:master\r\n": "", "master_replid2:ab\r\n": "",
		"master_replid2:76543210" + zeros[8:] + "\r\n": "-76543210",
	} {
		if got := Promotion(info); got != want {
			t.Errorf("%q tells the promotion %q", info, got)
		}
	}
}
