package session

import (
	"context"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/roster"
	"aliquot/internal/storeclock"
	"aliquot/limit"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/proto/aliquot/v1/aliquotv1connect"
	"aliquot/regional/internal/charge"
	"aliquot/regional/internal/emergency"
)

// TestADaemonSaysWhatItMayAdmit: a store that takes no mark counts as none in a session's reports, and a daemon that has
// left the floor to another one does not say that it admits by itself.
func TestADaemonSaysWhatItMayAdmit(t *testing.T) {
	t.Parallel()
	now := func() budget.Instant { return 100 * budget.Instant(time.Second) }
	o := &Others{roster: roster.New(7, nil, now()), emergency: emergency.New(now, storeclock.New(), nil), now: now}
	if s := o.inSession(false); s.Storeless || !s.Alone {
		t.Errorf("a daemon with its store, that knows of no other: %+v", s)
	}
	if o.recordMark(false); !o.inSession(false).Storeless || o.standing(false).Storeless {
		t.Errorf("without the mark it says %+v in its session, and %+v in a Hello", o.inSession(false), o.standing(false))
	}
	o.recordMark(true)
	if o.emergency.LeaveFloor(true); o.standing(true).Alone {
		t.Error("it has left the floor to another daemon, and says that it admits by it")
	}
}

// oneList is a store's list that answers by a function.
type oneList func(epoch string, c roster.Call) roster.Reply

func (l oneList) Roster(_ context.Context, epoch string, c roster.Call) (roster.Reply, error) {
	return l(epoch, c), nil
}

// straight makes a store's calls at once.
type straight struct{}

func (straight) Call(ctx context.Context, _, _ string, do func(context.Context) (int64, error)) error {
	_, err := do(ctx)
	return err
}

func (straight) Learn(context.Context) error { return nil }

// TestAListOfContentsThatAreLost: while the list is read it becomes known that the store has other contents. What this
// daemon has read of the earlier list says nothing of the present one, and it must not say so to another daemon.
func TestAListOfContentsThatAreLost(t *testing.T) {
	t.Parallel()
	now := func() budget.Instant { return 100 * second }
	s := newTestSession(t, &lastHello{})
	var o *Others
	o = NewOthers(OthersConfig{
		Authority: s.auth, Emergency: s.emergency, Policies: s.policies, Metrics: s.metrics, Log: s.log, Now: now, Self: 7,
		Store: oneList(func(epoch string, c roster.Call) roster.Reply {
			if epoch == "e1" {
				s.auth.StoreEpoch("e2")
				o.Unread()
			}
			return roster.Reply{Number: 5, Last: 9}
		}),
	})
	s.auth.StoreEpoch("e1")
	o.read(t.Context(), straight{})
	if call := o.roster.Call(); call.Number != 0 || call.Read != 0 || !o.Unread() {
		t.Errorf("it says to a list that it has not read: %+v", call)
	}
	if o.read(t.Context(), straight{}); o.Unread() {
		t.Error("the present list was read, and does not count")
	}
}

// TestADaemonThatWaitsForAWordIsNotBesideAnother: new to the list, it admits nothing by its emergency limit for a second.
// Nobody else is in the list, so what it earned before that stays its own.
func TestADaemonThatWaitsForAWordIsNotBesideAnother(t *testing.T) {
	t.Parallel()
	now := 100 * second
	s := newSession(&lastHello{}, nil, func() budget.Instant { return now }, t.Output())
	o := NewOthers(OthersConfig{
		Authority: s.auth, Emergency: s.emergency, Policies: s.policies, Metrics: s.metrics, Log: s.log, Self: 7,
		Now:   func() budget.Instant { return now },
		Store: oneList(func(string, roster.Call) roster.Reply { return roster.Reply{Number: 1, Last: 1} }),
	})
	a := charge.Charge{
		Planned: charge.Planned{Limit: limit.Limit{Capacity: limit.Token, Rate: limit.Rate{Micro: int64(limit.Token) / 10}}, Cost: limit.Token},
		Right:   budget.Right{Phase: budget.CutOff, Floor: budget.Share{Rate: budget.Unit, Burst: budget.Unit}},
	}
	admits := func() bool { return s.emergency.Take([]*charge.Charge{&a}, false, "", make([]limit.Outcome, 1)) }
	now += 20 * second
	s.auth.StoreEpoch("e1")
	if o.read(t.Context(), straight{}); o.Alone() || admits() {
		t.Error("new to the list, and without a coordinator's word, it admits alone")
	}
	now += second
	if o.read(t.Context(), straight{}); !o.Alone() || !admits() {
		t.Error("a second later it admits nothing alone, or has lost what it had earned")
	}
}

// TestADaemonIsForgottenThoughTheStoreTellsNothing: a daemon starts, and its state file names another one. Neither its
// store nor a coordinator answers. An hour later the other one counts for nothing.
func TestADaemonIsForgottenThoughTheStoreTellsNothing(t *testing.T) {
	t.Parallel()
	now := 100 * second
	s := newSession(&lastHello{}, nil, func() budget.Instant { return now }, t.Output())
	o := NewOthers(OthersConfig{
		Authority: s.auth, Emergency: s.emergency, Policies: s.policies, Metrics: s.metrics, Log: s.log,
		Now: func() budget.Instant { return now }, Self: 7, Known: []budget.DaemonID{9},
	})
	a := charge.Charge{
		Planned: charge.Planned{Limit: limit.Limit{Capacity: limit.Token, Rate: limit.Rate{Micro: int64(limit.Token) / 10}}, Cost: limit.Token},
		Right:   budget.Right{Phase: budget.CutOff, Floor: budget.Share{Rate: budget.Unit, Burst: budget.Unit}},
	}
	later := func(d time.Duration) (admits bool) {
		now = now.Add(d)
		o.read(t.Context(), straight{})
		return s.emergency.Take([]*charge.Charge{&a}, false, "", make([]limit.Outcome, 1))
	}
	if later(budget.ForgetDaemonAfter-1) || o.Alone() || len(o.Known()) != 1 {
		t.Error("before that it admits, or does not know of the other one")
	}
	if later(1); !o.Alone() || len(o.Known()) != 0 {
		t.Errorf("alone: %v; its state file names %v", o.Alone(), o.Known())
	}
	if later(9*time.Second) || !later(2*time.Second) || later(time.Second) {
		t.Error("at one request in ten seconds, it has not admitted one after 11 s alone, and no other")
	}
}

// slowLeader is a leader that answers every report after a while.
type slowLeader struct {
	aliquotv1connect.LeaseServiceClient
	wait func()
}

func (l slowLeader) Report(context.Context, *aliquotv1.ReportRequest) (*aliquotv1.ReportResponse, error) {
	l.wait()
	return &aliquotv1.ReportResponse{Epoch: 5}, nil
}

// TestAnAnsweredReportVouches: a daemon has not read its store's list for half an hour, so it is new there. Another one, in
// the list for another 23 hours, was killed and reads nothing. The next answer in its session is the leader's word, unless
// another daemon may have got the session since the report was sent.
func TestAnAnsweredReportVouches(t *testing.T) {
	t.Parallel()
	for late, spends := range map[time.Duration]bool{time.Second: true, 3 * time.Second: false} {
		now := 2 * budget.Instant(time.Hour)
		var list roster.List
		list.Answer(roster.Call{Self: 9}, int64(now.Add(-time.Hour))/1000)
		s := newSession(slowLeader{wait: func() { now = now.Add(late) }}, nil, func() budget.Instant { return now }, t.Output())
		s.others = NewOthers(OthersConfig{
			Authority: s.auth, Emergency: s.emergency, Policies: s.policies, Metrics: s.metrics, Log: s.log, Self: 7,
			Now:   func() budget.Instant { return now },
			Store: oneList(func(_ string, c roster.Call) roster.Reply { return list.Answer(c, int64(now)/1000) }),
		})
		s.auth.StoreEpoch("e1")
		s.others.recordAnswer(false)
		if s.others.read(t.Context(), straight{}); !s.others.Spends() {
			t.Fatal("it does not spend after its Hello")
		}
		now = now.Add(30 * time.Minute)
		for range 2 {
			if s.others.read(t.Context(), straight{}); s.others.Spends() {
				t.Fatal("it spends, and the daemons that it finds in the list may have forgotten it")
			}
		}
		if s.report(t.Context(), budget.Report{}); s.others.Spends() != spends || s.others.Alone() != spends {
			t.Errorf("answered after %v: it spends: %v, and is alone: %v", late, s.others.Spends(), s.others.Alone())
		}
	}
}

// TestARefusalNamesTheOthers: a daemon without its store is told that another one has the session. The next leader has not
// heard of that one, and gives this daemon a session. It admits nothing by its emergency limit all the same. A coordinator
// of an earlier version names nobody, and what the state file named stays known.
func TestARefusalNamesTheOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		epoch     uint64
		others    []uint64
		fromAFile []budget.DaemonID
		alone     bool
	}{
		{epoch: 7, others: []uint64{9}},
		{epoch: 7, alone: true},
		{fromAFile: []budget.DaemonID{9}},
	} {
		leader := &lastHello{answer: &aliquotv1.HelloResponse{Nonce: 1, Busy: true, Config: configOf("c1"), Others: c.others, OthersEpoch: c.epoch}}
		s := newTestSession(t, leader)
		s.others = NewOthers(OthersConfig{
			Authority: s.auth, Emergency: s.emergency, Policies: s.policies, Metrics: s.metrics, Log: s.log, Now: s.auth.Now, Self: 7, Known: c.fromAFile,
		})
		if ev, refused := s.hello(t.Context(), budget.Hello{RedisEpoch: "e1"}).(budget.CallFailed); !refused || !ev.Busy {
			t.Fatalf("%+v", ev)
		}
		leader.answer = &aliquotv1.HelloResponse{Epoch: 8, Session: 1, Nonce: 1, Config: configOf("c1")}
		if ev, opens := s.hello(t.Context(), budget.Hello{RedisEpoch: "e1"}).(budget.HelloAnswered); !opens {
			t.Fatalf("%+v", ev)
		}
		if s.others.Alone() != c.alone {
			t.Errorf("the leader of epoch %d named %v: alone under the next one: %v", c.epoch, c.others, !c.alone)
		}
	}
}
