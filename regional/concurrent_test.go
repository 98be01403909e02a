package regional

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// TestManyAtOnce: with checks and batches from all sides, while shares move, rules
// change and the store loses its contents, every check is answered, and a client
// whose limits stood still got no more than its floor.
func TestManyAtOnce(t *testing.T) {
	redis := startRedis(t)
	const text = "rules:\n  - id: r0\n    params: {capacity: 100, refill_rate: 10}\n"
	l := newLeader(t, text)
	c := testConfig(l.address())
	c.Redis = redis.url()
	d, _ := startLive(t, c)
	began := time.Now()
	ctx := context.Background()
	var passed atomic.Int64 // of client 0
	var clients, faults sync.WaitGroup
	overConnect := aliquotv1connect.NewLimiterServiceClient(http.DefaultClient, "http://"+d.Addr())
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
				return l.hellos[len(l.hellos)-1].GetRedisEpoch() == d.auth.currentEpoch()
			})
		}
	})
	clients.Wait()
	faults.Wait()
	if most := 50 + 5*time.Since(began).Seconds() + 1; float64(passed.Load()) > most {
		t.Errorf("%d passed, the floor allows %.0f", passed.Load(), most)
	}
}
