package leasewire

import (
	"errors"
	"math"
	"testing"
	"time"

	"aliquot/budget"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// countedReport is a report of one key of a fixed window of a minute, changed at will.
func countedReport(change func(*aliquotv1.KeyReport)) *aliquotv1.ReportRequest {
	k := &aliquotv1.KeyReport{
		Key: &aliquotv1.KeyId{Rule: 1, Hash: make([]byte, HashBytes)},
		Gen: &aliquotv1.Generation{Epoch: 1, Counter: 1}, Share: &aliquotv1.Share{Rate: 1 << 19, Burst: 1 << 19},
		Limit: &aliquotv1.KeyLimit{CapacityMicro: 300e6, RateMicro: 5e6, TailMicros: 120e6},
		InUse: 1 << 18, Label: 29_000_000,
	}
	if change != nil {
		change(k)
	}
	return &aliquotv1.ReportRequest{Keys: []*aliquotv1.KeyReport{k}}
}

func TestReportOfALimitThatCounts(t *testing.T) {
	rep, err := ReportFrom(0, countedReport(nil))
	if err != nil {
		t.Fatal(err)
	}
	k := rep.Keys[0]
	if k.InUse != 1<<18 || k.Label != 29_000_000 || k.Limit.Tail != 2*time.Minute {
		t.Errorf("%+v", k)
	}
	if l := limitToWire(k.Limit); l.GetTailMicros() != 120e6 || limitFromWire(l) != k.Limit {
		t.Errorf("%+v", l)
	}
	a := actionsToWire([]budget.Action{{Limit: k.Limit, From: 7}})[0]
	if a.GetFrom() != 7 || a.GetLimit().GetTailMicros() != 120e6 {
		t.Errorf("%+v", a)
	}
}

// TestHostileReportOfALimitThatCounts: numbers that no region can mean are refused by
// the leader's machine, and none wraps around on its way there.
func TestHostileReportOfALimitThatCounts(t *testing.T) {
	for name, change := range map[string]func(*aliquotv1.KeyReport){
		"in use below nothing":      func(k *aliquotv1.KeyReport) { k.InUse = -1 },
		"in use above everything":   func(k *aliquotv1.KeyReport) { k.InUse = budget.Unit + 1 },
		"a window before the first": func(k *aliquotv1.KeyReport) { k.Label = -1 },
		"a tail of two years and a microsecond": func(k *aliquotv1.KeyReport) {
			k.Limit.TailMicros = budget.MaxTail.Microseconds() + 1
		},
		"a tail that would wrap":      func(k *aliquotv1.KeyReport) { k.Limit.TailMicros = math.MaxInt64 },
		"a tail that would wrap to 0": func(k *aliquotv1.KeyReport) { k.Limit.TailMicros = 1 << 62 },
		"a negative tail":             func(k *aliquotv1.KeyReport) { k.Limit.TailMicros = math.MinInt64 },
	} {
		l := opened()
		if err := refusal(t, l, countedReport(nil), 1); err != nil {
			t.Fatalf("one that is well: %v", err)
		}
		if err := refusal(t, l, countedReport(change), 2); !errors.Is(err, budget.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// opened is a leader with whom two regions have a session each.
func opened() *budget.Leader {
	l, _ := openedWith()
	return l
}

// openedWith is opened with a copy of its ledger.
func openedWith() (*budget.Leader, *budget.Ledger) {
	c := budget.NewConfig([]string{"us", "eu"}, 10*time.Second, 20_000)
	ledger := &budget.Ledger{Config: c, Epoch: 1}
	l := budget.NewLeader(ledger.Clone(), 1)
	for region := range 2 {
		l.Step(budget.HelloReceived{Hello: budget.Hello{Region: region, Incarnation: 1, Nonce: 1, RedisEpoch: "n:r:1"}}, 1)
	}
	l.Step(budget.Tick{}, budget.Instant(20*time.Millisecond))
	l.Step(budget.Committed{}, budget.Instant(20*time.Millisecond))
	l.Step(budget.Verified{}, budget.Instant(20*time.Millisecond))
	return l, ledger
}

// refusal is why the leader refuses a report of the first region; nil if it does not.
func refusal(t *testing.T, l *budget.Leader, m *aliquotv1.ReportRequest, seq uint64) error {
	t.Helper()
	m.Epoch, m.Session, m.Seq, m.Ack = 1, 1, seq, seq-1
	rep, err := ReportFrom(0, m)
	if err != nil {
		return err
	}
	for _, effect := range l.Step(budget.ReportReceived{Report: rep}, budget.Instant(seq*uint64(time.Second))) {
		if refuse, is := effect.(budget.Refuse); is && refuse.Seq == rep.Seq {
			return refuse.Err
		}
	}
	return nil
}

// TestSlotsThatAreNotReached: a region's word for them gets to the machine, and what is none
// is refused.
func TestSlotsThatAreNotReached(t *testing.T) {
	slots := make([]byte, 2048)
	slots[1] = 1 << 2
	h, err := HelloFrom(0, &aliquotv1.HelloRequest{Nonce: 1, UnreachedSlots: slots})
	if err != nil || !h.Unreached.Has(10) || h.Unreached.Has(11) {
		t.Errorf("%v, %v", h.Unreached, err)
	}
	r, err := ReportFrom(0, &aliquotv1.ReportRequest{UnreachedSlots: slots})
	if err != nil || !r.Unreached.Same(h.Unreached) {
		t.Errorf("%v, %v", r.Unreached, err)
	}
	if _, err := HelloFrom(0, &aliquotv1.HelloRequest{Nonce: 1, UnreachedSlots: slots[1:]}); !errors.Is(err, budget.ErrMalformed) {
		t.Errorf("a Hello with 2047 bytes: %v", err)
	}
	if _, err := ReportFrom(0, &aliquotv1.ReportRequest{UnreachedSlots: slots[1:]}); !errors.Is(err, budget.ErrMalformed) {
		t.Errorf("a report with 2047 bytes: %v", err)
	}
}
