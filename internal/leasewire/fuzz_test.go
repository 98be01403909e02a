package leasewire

import (
	"runtime/metrics"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// mostGrowth is how many bytes may be allocated for one byte of a message, its decoding and the leader's step together.
// Two bytes can be a message of its own: the coordinator counts them before it decodes; see rpc.CountedCodecs.
const mostGrowth = 2000

// Instants of a leader: while the region's first daemon is heard, and long after it was.
const soon, late = budget.Instant(time.Second), budget.Instant(time.Hour)

// allocated returns how many bytes run allocates.
func allocated(run func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	run()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}

// fuzzed gives a leader, at an instant, an event that a peer's message led to, and checks what the leader does from then
// on: no region gets more than the others leave, and the other region is served.
func fuzzed(t *testing.T, event budget.LeaderEvent, now budget.Instant) {
	t.Helper()
	l, ledger := openedWith()
	session := uint64(2)
	step := func(event budget.LeaderEvent) (answered bool) {
		pending := l.Step(event, now)
		for len(pending) > 0 {
			effect := pending[0]
			pending = pending[1:]
			switch e := effect.(type) {
			case budget.Commit:
				if err := ledger.Apply(e.Plan); err != nil {
					t.Fatalf("a plan that the ledger refuses: %v", err)
				}
				pending = append(pending, l.Step(budget.Committed{}, now)...)
			case budget.Verify:
				pending = append(pending, l.Step(budget.Verified{}, now)...)
			case budget.Answer:
				answered = answered || e.Directive.Region == 1
				ReportResponse(e.Directive)
			case budget.Welcome:
				HelloResponse(e.OK)
				if e.OK.Region == 1 {
					session = e.OK.Session
				}
			}
		}
		return answered
	}
	step(event)
	step(budget.HelloReceived{Hello: budget.Hello{Region: 1, Incarnation: 1, Nonce: 9, RedisEpoch: "n:r:1"}})
	step(budget.Tick{})
	for seq := uint64(1); seq <= 3; seq++ {
		now = now.Add(time.Second)
		answered := step(budget.ReportReceived{Report: budget.Report{Region: 1, Epoch: 1, Session: session, Seq: seq, Ack: seq - 1}})
		now = now.Add(budget.AnswerHold)
		answered = step(budget.Tick{}) || answered
		if !answered {
			t.Fatalf("report %d of the other region is not answered", seq)
		}
	}
}

// FuzzReport: no bytes that a region may send as a report end the leader, take memory out of proportion to their
// length, or overcommit the ledger. session: what the sender knows of its session is right.
func FuzzReport(f *testing.F) {
	for _, m := range []*aliquotv1.ReportRequest{
		{}, countedReport(nil), {Daemon: 7, Others: []uint64{1, 2}, UnreachedSlots: make([]byte, 2048), PaceMicros: -1},
	} {
		m.Region, m.Epoch, m.Session, m.Seq = "us", 1, 1, 1
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, session bool) {
		var report budget.Report
		var err error
		took := allocated(func() {
			m := &aliquotv1.ReportRequest{}
			if err = proto.Unmarshal(data, m); err != nil {
				return
			}
			if session {
				m.Epoch, m.Session = 1, 1
			}
			report, err = ReportFrom(0, m)
		})
		if most := uint64(mostGrowth*len(data) + 1<<20); took > most {
			t.Errorf("%d bytes take %d of memory, at most %d", len(data), took, most)
		}
		if err == nil {
			fuzzed(t, budget.ReportReceived{Report: report}, soon)
		}
	})
}

// FuzzHello is FuzzReport for the message that opens a session.
func FuzzHello(f *testing.F) {
	k := countedReport(nil).Keys[0]
	for _, m := range []*aliquotv1.HelloRequest{
		{}, {RedisEpoch: "n:r:1", Held: []*aliquotv1.HeldKey{{Key: k.Key, Gen: k.Gen, Share: k.Share, Limit: k.Limit}}},
		{Daemon: 7, Storeless: true, Alone: true, Others: []uint64{1}, Spent: []*aliquotv1.KeyReport{k}},
	} {
		m.Region, m.Incarnation, m.Nonce = "us", 2, 2
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var hello budget.Hello
		var err error
		took := allocated(func() {
			m := &aliquotv1.HelloRequest{}
			if err = proto.Unmarshal(data, m); err != nil {
				return
			}
			if _, err = SpentFrom(m.GetSpent()); err == nil {
				hello, err = HelloFrom(0, m)
			}
		})
		if most := uint64(mostGrowth*len(data) + 1<<20); took > most {
			t.Errorf("%d bytes take %d of memory, at most %d", len(data), took, most)
		}
		if err == nil {
			fuzzed(t, budget.HelloReceived{Hello: hello}, soon)
			fuzzed(t, budget.HelloReceived{Hello: hello}, late) // the daemon before it is silent
		}
	})
}
