package coordinator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// region is the other side of the protocol, as plain as it can be: it accepts every
// share it is sent and reports what the test tells it to.
type region struct {
	lease  aliquotv1connect.LeaseServiceClient
	name   string
	inc    uint64
	daemon uint64 // its id, which it says in a Hello; 0: none
	nonce  uint64
	rules  uint64
	hello  *aliquotv1.HelloResponse
	seq    uint64
	shares map[string]*aliquotv1.Action // by hash

	// decide says what the region decides between two reports under a version of the
	// rules; nil: nothing.
	decide          func(version uint64) (allowed, denied uint64)
	allowed, denied uint64
}

// errBusy: another daemon of the region is heard.
var errBusy = errors.New("busy")

func newRegion(lease aliquotv1connect.LeaseServiceClient, name string) *region {
	return &region{lease: lease, name: name, inc: 1, shares: map[string]*aliquotv1.Action{}}
}

func (r *region) sayHello(ctx context.Context) error {
	r.nonce++
	res, err := r.lease.Hello(ctx, &aliquotv1.HelloRequest{
		Region: r.name, Incarnation: r.inc, RedisEpoch: "n:" + r.name + ":1", Nonce: r.nonce, RulesVersion: r.rules, Daemon: r.daemon,
	})
	if err != nil {
		return err
	}
	r.hello, r.seq, r.shares = res, 0, map[string]*aliquotv1.Action{}
	if res.GetBusy() {
		return errBusy
	}
	r.take(res.GetActions(), res.GetRules())
	return nil
}

func (r *region) take(actions []*aliquotv1.Action, rules *aliquotv1.Rules) {
	for _, a := range actions {
		if a.GetCold() {
			delete(r.shares, string(a.GetKey().GetHash()))
			continue
		}
		r.shares[string(a.GetKey().GetHash())] = a
	}
	if rules != nil {
		r.rules, r.allowed, r.denied = rules.GetVersion(), 0, 0
	}
}

// report sends the next report; every share held is acknowledged with it.
func (r *region) report(ctx context.Context, keys ...*aliquotv1.KeyReport) (*aliquotv1.ReportResponse, error) {
	reported := map[string]bool{}
	for _, k := range keys {
		reported[string(k.GetKey().GetHash())] = true
		if held := r.shares[string(k.GetKey().GetHash())]; held != nil {
			k.Gen, k.Share = held.GetGen(), held.GetShare()
		}
	}
	for hash, held := range r.shares {
		if !reported[hash] {
			keys = append(keys, &aliquotv1.KeyReport{Key: held.GetKey(), Gen: held.GetGen(), Share: held.GetShare(), Limit: held.GetLimit()})
		}
	}
	if r.decide != nil {
		allowed, denied := r.decide(r.rules)
		r.allowed, r.denied = r.allowed+allowed, r.denied+denied
	}
	res, err := r.lease.Report(ctx, &aliquotv1.ReportRequest{
		Region: r.name, Epoch: r.hello.GetEpoch(), Session: r.hello.GetSession(),
		Seq: r.seq + 1, TSend: 1, Ack: r.seq, RulesVersion: r.rules, Keys: keys,
		DecidedRulesVersion: r.rules, Allowed: r.allowed, Denied: r.denied,
	})
	if err != nil {
		return nil, err
	}
	r.seq++
	r.take(res.GetActions(), res.GetRules())
	return res, nil
}

// run keeps the region alive until ctx ends: Hello when there is no session, else
// a report with what usage returns. It reports nothing about a share it does not
// hold, except to ask for it.
func (r *region) run(ctx context.Context, usage func(held bool) []*aliquotv1.KeyReport) {
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for ctx.Err() == nil {
		if r.hello == nil {
			if r.sayHello(ctx) != nil {
				r.hello = nil
				<-pause.C
			}
			continue
		}
		if _, err := r.report(ctx, usage(len(r.shares) > 0)...); err != nil {
			r.hello = nil
		}
	}
}

// inBackground runs the regions until the test ends.
func inBackground(t *testing.T, usage func(name string, held bool) []*aliquotv1.KeyReport, regions ...*region) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, len(regions))
	for _, r := range regions {
		go func() {
			r.run(ctx, func(held bool) []*aliquotv1.KeyReport { return usage(r.name, held) })
			done <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range regions {
			<-done
		}
	})
}

// wants is a report of a key of capacity 100 and rate 10 that asks for more.
func wants(rule uint32, hash string, admitted, offered int64) *aliquotv1.KeyReport {
	return &aliquotv1.KeyReport{
		Key:           &aliquotv1.KeyId{Rule: rule, Hash: []byte(hash)},
		AdmittedMicro: admitted * 1e6, OfferedMicro: offered * 1e6, Rejecting: offered > admitted,
		Limit: &aliquotv1.KeyLimit{CapacityMicro: 100e6, RateMicro: 10e6},
	}
}
