package regional

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// TestManyAtOnce: with checks and batches from all sides, while shares move, rules
// change and the store loses its contents, every check is answered, and a client
// whose limits did not change got no more than its floor.
func TestManyAtOnce(t *testing.T) {
	redis := startRedis(t)
	const text = "defaults: {enforcement: strict}\nrules:\n  - id: r0\n    params: {capacity: 100, refill_rate: 10}\n"
	l := newLeader(t, text)
	c := testConfig(l.address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	began := time.Now()
	ctx := context.Background()
	var passed atomic.Int64 // of client 0
	var clients, faults sync.WaitGroup
	overConnect := aliquotv1connect.NewLimiterServiceClient(clientOf(d), "http://"+d.Addr())
	overGRPC := aliquotv1.NewLimiterServiceClient(dialGRPC(t, d))
	for w := range 6 {
		clients.Go(func() {
			for i := range 150 {
				in := &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": fmt.Sprint("k", i%3)}}
				out, err := (*aliquotv1.CheckResponse)(nil), error(nil)
				switch w % 3 {
				case 0:
					out, err = overConnect.Check(ctx, in)
				case 1:
					out, err = overGRPC.Check(ctx, in)
				default:
					var batch *aliquotv1.CheckBatchResponse
					batch, err = overGRPC.CheckBatch(ctx, &aliquotv1.CheckBatchRequest{Requests: []*aliquotv1.CheckRequest{in}})
					if err == nil {
						out = batch.GetResults()[0].GetResponse()
					}
				}
				if err != nil {
					t.Errorf("client %d, check %d: %v", w, i, err)
				} else if i%3 == 0 && out.GetAllowed() {
					passed.Add(1)
				}
			}
		})
	}
	faults.Go(func() {
		for version := uint64(2); version < 6; version++ {
			l.setRules(version, text)
			say("FLUSHALL")(redis)
			eventually(t, "a Hello after the flush", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.hellos[len(l.hellos)-1].GetRedisEpoch() == d.auth.CurrentEpoch()
			})
		}
	})
	clients.Wait()
	faults.Wait()
	if most := 50 + 5*time.Since(began).Seconds() + 1; float64(passed.Load()) > most {
		t.Errorf("%d passed, the floor allows %.0f", passed.Load(), most)
	}
}

// TestChecksShareCalls: single checks of many callers at once are decided by the
// store in far fewer calls, and admit to a token what one after the other would.
func TestChecksShareCalls(t *testing.T) {
	c := testConfig(newLeader(t, "defaults: {enforcement: strict, local_cache: false}\nrules:\n  - id: r0\n    params: {capacity: 1000, refill_rate: 0.001}\n").address())
	c.Redis = startRedis(t).url()
	d, _ := startLive(t, c)
	s := d.service
	const callers, each = 100, 20
	var passed, elsewhere atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				out, err := s.Check(t.Context(), &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k"}})
				switch {
				case err != nil:
					t.Error(err)
				case !byTheLimit(out.GetMode()):
					elsewhere.Add(1)
				case out.GetAllowed():
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	// A check that was decided elsewhere, because its caller lost patience on a busy machine, may be charged by its call and
	// as a debt.
	if passed.Load()+2*elsewhere.Load() < 500 || passed.Load() > 500 {
		t.Errorf("%d passed, half of the limit is 500; %d were decided elsewhere", passed.Load(), elsewhere.Load())
	}
	calls := sampleOf(t, scrape(t, d), "aliquot_store_call_groups_count")
	if groups := sampleOf(t, scrape(t, d), "aliquot_store_call_groups_sum"); groups+float64(elsewhere.Load()) < callers*each || calls > groups/4 {
		t.Errorf("%v checks in %v calls", groups, calls)
	}
}

// TestCallerWithoutTime: a check whose caller's time is over is nobody's to charge
// and no failure of the store.
func TestCallerWithoutTime(t *testing.T) {
	redis := startRedis(t)
	c := testConfig(newLeader(t, failRules).address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	redis.signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	s := d.service
	_, err := s.Check(ctx, &aliquotv1.CheckRequest{Attributes: map[string]string{"api_key": "k", "on": "local"}})
	if connect.CodeOf(err) != connect.CodeDeadlineExceeded {
		t.Errorf("%v", err)
	}
	if d.emergency.Owes() {
		t.Error("a key owes what a caller without time was charged")
	}
	redis.signal(syscall.SIGCONT)
}

// sampleOf is the value of one series without labels.
func sampleOf(t *testing.T, metrics, name string) (value float64) {
	t.Helper()
	for line := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
