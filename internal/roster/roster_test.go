package roster_test

import (
	"slices"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/roster"
)

// world is a store's list and the daemons of a region, on clocks that agree.
type world struct {
	t    *testing.T
	list roster.List
	now  budget.Instant
}

func start(t *testing.T) *world { return &world{t: t, now: budget.Instant(time.Hour)} }

func (w *world) daemon(id budget.DaemonID, kept ...budget.DaemonID) *roster.Roster {
	return roster.New(id, kept, w.now)
}

// reads has a daemon read the list.
func (w *world) reads(r *roster.Roster) {
	r.Answered(w.list.Answer(r.Call(), int64(w.now)/1000), w.now)
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) is(r *roster.Roster, spends, alone bool, when string) {
	w.t.Helper()
	if got := r.Spends(w.now); got != spends {
		w.t.Errorf("%s: daemon %d spends by the store: %v", when, r.Self(), got)
	}
	if got := r.Alone(w.now, false); got != alone {
		w.t.Errorf("%s: daemon %d admits alone: %v", when, r.Self(), got)
	}
}

// The one daemon of a region waits for a coordinator's word, or a second where none answers.
// While it waits it admits nothing by its emergency limit either. When it comes back it waits for nothing.
func TestTheOnlyDaemon(t *testing.T) {
	w := start(t)
	a := w.daemon(1)
	w.is(a, false, true, "before the store answers")
	w.reads(a)
	w.is(a, false, false, "new to the list")
	w.pass(time.Second)
	w.is(a, true, true, "without a coordinator for a second")
	vouched := w.daemon(1)
	vouched.Vouched()
	w.is(vouched, true, true, "with a session")
	w.pass(time.Hour)
	again := w.daemon(1)
	w.reads(again)
	w.is(again, true, true, "restarted")
}

// A new daemon spends when the other one has read of it. From then on neither admits alone.
func TestASecondDaemonIsReadOfFirst(t *testing.T) {
	w := start(t)
	a, b := w.daemon(1), w.daemon(2)
	w.reads(a)
	w.pass(2 * time.Second)
	w.reads(b)
	w.pass(2 * time.Second)
	w.reads(b)
	w.is(b, false, false, "the first has not read of it")
	w.is(a, true, true, "it has not read of the second")
	w.reads(a)
	w.is(a, true, false, "it has read of the second")
	w.reads(b)
	w.is(b, false, false, "the first has not said so")
	w.reads(a)
	w.reads(b)
	w.is(b, true, false, "the first has said so")
	if got := a.Others(w.now); !slices.Equal(got, []budget.DaemonID{2}) {
		t.Errorf("the first knows %v", got)
	}
}

// A daemon whose way to the store is lost before it reads of a new one may admit alone. The new
// one finds it in the list, and spends nothing until a coordinator vouches for it.
func TestADaemonThatMayAdmitAloneIsWaitedFor(t *testing.T) {
	w := start(t)
	a, b := w.daemon(1), w.daemon(2)
	w.reads(a)
	for range 100 {
		w.pass(time.Minute)
		w.reads(b)
		w.is(b, false, false, "the first is in the list, and silent")
	}
	w.is(a, false, true, "the first, which has not read the list for long")
	b.Wait(w.now)
	w.is(b, false, false, "a coordinator says to wait")
	b.Vouched()
	if !b.Spends(w.now) {
		t.Error("a coordinator vouches for the second, and it does not spend")
	}
	w.pass(roster.DropAfter)
	late := w.daemon(3)
	w.reads(late)
	w.pass(time.Second)
	w.is(late, true, true, "a day later the list has dropped the first")
}

// A daemon whose store has told its contents can read the list. Until it has, another one may be in it that no
// coordinator hears, whatever a leader says that was just elected.
func TestADaemonThatCanReadTheListIsNotAloneBefore(t *testing.T) {
	w := start(t)
	a := w.daemon(1)
	w.is(a, false, true, "it has reached no store")
	a.Contents()
	w.is(a, false, false, "the store has told its contents, and the list is not read")
	a.Vouched()
	w.is(a, true, false, "a coordinator vouches for it")
	w.reads(a)
	w.is(a, true, true, "nobody else is in the list")
}

// TestADaemonThatWaitsForAWordAdmitsNothing: a leader vouches for another one, which spends by the store before it is in
// the list. The first one finds nobody there, and hears no coordinator.
func TestADaemonThatWaitsForAWordAdmitsNothing(t *testing.T) {
	w := start(t)
	a, b := w.daemon(1), w.daemon(2)
	a.Contents()
	b.Contents()
	b.Vouched()
	w.is(b, true, false, "vouched for, and not in the list")
	w.reads(a)
	w.pass(time.Second - 1)
	w.is(a, false, false, "nobody else is in the list, and no coordinator has answered")
	if got := a.Certainty(w.now); got != roster.CertainInSession || !a.Alone(w.now, true) {
		t.Errorf("its certainty is %v, or it is not alone with the session", got)
	}
	w.reads(b)
	if w.reads(a); a.Certainty(w.now) != roster.Certain {
		t.Error("it has read of the other one, and is not certain")
	}
	w.pass(time.Second)
	w.reads(b)
	w.reads(a)
	w.is(a, true, false, "each has read of the other")
}

// A daemon that leaves is forgotten at once, one that falls silent in an hour.
func TestDaemonsAreForgotten(t *testing.T) {
	w := start(t)
	a, b, c := w.daemon(1), w.daemon(2), w.daemon(3)
	for range 2 {
		w.reads(a)
		w.reads(b)
		w.reads(c)
	}
	w.reads(a)
	call := b.Call()
	call.Leaves = true
	w.list.Answer(call, int64(w.now)/1000)
	w.reads(a)
	if got := a.Others(w.now); !slices.Equal(got, []budget.DaemonID{3}) {
		t.Errorf("the second has left, and the first knows %v", got)
	}
	for range 3 {
		w.pass(19 * time.Minute)
		w.reads(a)
		w.is(a, true, false, "the third fell silent lately")
	}
	w.pass(4 * time.Minute)
	w.is(a, true, true, "the third fell silent an hour ago")
}

// What was read holds over a change of the store's contents: there the list is empty, and
// a daemon that was in it may still spend.
func TestOtherContents(t *testing.T) {
	w := start(t)
	a, b := w.daemon(1), w.daemon(2)
	for range 3 {
		w.reads(a)
		w.reads(b)
		w.pass(time.Second)
	}
	w.list = roster.List{}
	a.Contents()
	w.reads(a)
	w.is(a, true, false, "after a flush")
	b.Contents()
	w.reads(b)
	w.is(b, true, false, "after a flush")
}

// A daemon that has not read the list for half an hour begins again, for others forget it.
func TestADaemonThatWasAwayBeginsAgain(t *testing.T) {
	w := start(t)
	a, b := w.daemon(1), w.daemon(2)
	for range 3 {
		w.reads(a)
		w.reads(b)
		w.pass(time.Second)
	}
	w.pass(budget.ForgetDaemonAfter)
	w.is(a, false, true, "an hour later, before it reads")
	w.reads(a)
	w.reads(a)
	w.is(a, false, false, "the other one has not read of it again")
}

// A leader's word lasts until the same leader does not say it any more, or for an hour: a new
// leader may not know.
func TestALeadersWord(t *testing.T) {
	w := start(t)
	a := w.daemon(1, 9)
	w.is(a, false, false, "by its state file there is another")
	a.Told(7, []budget.DaemonID{1, 4}, w.now)
	if got := a.Others(w.now); !slices.Equal(got, []budget.DaemonID{4, 9}) {
		t.Errorf("it knows %v", got)
	}
	a.Told(8, nil, w.now)
	if got := a.Others(w.now); !slices.Equal(got, []budget.DaemonID{4, 9}) {
		t.Errorf("a new leader knows nobody, and it %v", got)
	}
	a.Told(8, []budget.DaemonID{4}, w.now)
	a.Told(8, nil, w.now)
	if got := a.Others(w.now); !slices.Equal(got, []budget.DaemonID{9}) {
		t.Errorf("daemon 4 has left, and it knows %v", got)
	}
	w.pass(budget.ForgetDaemonAfter)
	w.is(a, false, true, "an hour later")
}

// The list is read often while a daemon waits, and else once a second.
func TestHowOftenTheListIsRead(t *testing.T) {
	w := start(t)
	a, b := w.daemon(1), w.daemon(2)
	w.reads(a)
	if got := a.NextRead(w.now); got != roster.ReadSoon {
		t.Errorf("new to the list: %v", got)
	}
	w.pass(time.Second)
	w.reads(a)
	if got := a.NextRead(w.now); got != roster.ReadEvery {
		t.Errorf("nothing new: %v", got)
	}
	w.reads(b)
	w.reads(a)
	if got := a.NextRead(w.now); got != roster.ReadSoon {
		t.Errorf("there is a new one, which waits: %v", got)
	}
}

// A daemon that has not read of another one may still count on being alone, also after the store has lost the list.
func TestALostListLeavesADaemonUnread(t *testing.T) {
	w := start(t)
	first, second := w.daemon(1), w.daemon(2)
	w.reads(first)
	w.reads(second)
	w.list = roster.List{}
	second.Contents()
	w.reads(second)
	w.pass(5 * time.Second)
	w.is(second, false, false, "the list is lost, and the first daemon has not read of the second")
	w.reads(first)
	w.reads(second)
	w.is(second, true, false, "the first daemon has read the new list")
}

// TestTheListOfOtherContents: a daemon whose store has other contents does not count on being alone until it has read
// their list, because the daemons in it cannot know of it. While it has the session, no other one can spend.
func TestTheListOfOtherContents(t *testing.T) {
	w := start(t)
	a := w.daemon(1)
	a.Contents()
	w.reads(a)
	w.pass(2 * time.Second)
	w.is(a, true, true, "the only one in the list")
	w.list = roster.List{}
	a.Contents()
	w.is(a, true, false, "before it has read the new list")
	if !a.Alone(w.now, true) {
		t.Error("not alone in session")
	}
	w.reads(w.daemon(2))
	w.reads(a)
	w.is(a, true, false, "beside the daemon that it has read of")
}

// TestASessionIsNoList: a daemon is new and has the session at once. The list of its store may have a daemon that no
// leader knows, for example one that slept through an election. It may spend its floor once it wakes.
func TestASessionIsNoList(t *testing.T) {
	w := start(t)
	sleeper, next := w.daemon(1), w.daemon(2)
	w.reads(sleeper)
	next.Contents()
	next.Vouched()
	if next.Alone(w.now, true) {
		t.Error("alone in session before it has read any list")
	}
	w.reads(next)
	w.is(next, true, false, "beside the daemon that sleeps")
}

// TestANewListNumbersAboveAllBefore: the list is lost, and the store's other contents are not. A new daemon is in the new
// list. The first one calls, but the answer is lost, and so is its store. It may admit alone, so the new one waits.
func TestANewListNumbersAboveAllBefore(t *testing.T) {
	w := start(t)
	first := w.daemon(1)
	w.reads(first)
	w.pass(2 * time.Second)
	w.reads(first)
	w.list = roster.List{}
	second := w.daemon(2)
	w.reads(second)
	w.list.Answer(first.Call(), int64(w.now)/1000)
	w.pass(roster.ReadSoon)
	w.reads(second)
	w.pass(2 * time.Second)
	w.reads(second)
	w.is(first, true, true, "the first, which has not read of the second")
	w.is(second, false, false, "the second, of which the first has not read")
}

// TestTheWaitLastsUntilTheNextWord: a coordinator tells a daemon to wait at each of its Hellos, and they take long.
func TestTheWaitLastsUntilTheNextWord(t *testing.T) {
	w := start(t)
	b := w.daemon(2)
	b.Wait(w.now)
	w.reads(b)
	for range 5 {
		w.pass(2800 * time.Millisecond)
		w.is(b, false, false, "told to wait")
		b.Wait(w.now)
	}
	w.pass(3 * time.Second)
	w.is(b, true, true, "no word for three seconds")
}

// TestADaemonThatLeftIsForgotten: the other daemon was known when this one ran last, and stops in order while both run.
// A leader that has not named it says nothing of it.
func TestADaemonThatLeftIsForgotten(t *testing.T) {
	r := roster.New(1, []budget.DaemonID{2}, 0)
	r.Contents()
	r.Answered(roster.Reply{Number: 2, Last: 2, Others: []roster.Entry{{ID: 2, Read: 2, At: 1}}, Now: 1}, 1)
	r.Told(7, nil, 2)
	if got := r.Others(3); len(got) != 1 {
		t.Fatalf("while it runs: %v", got)
	}
	r.Answered(roster.Reply{Number: 2, Last: 2, Now: 2}, 4)
	r.Told(7, nil, 5)
	if got := r.Others(6); len(got) != 0 {
		t.Errorf("after it has left: %v", got)
	}
}
