package sim

import (
	"testing"
	"time"

	"aliquot/internal/sim/site"
)

// slept is a calm world in which the daemon of the first region is suspended while the
// answer to a report is on its way to it, its store is flushed, and it wakes up. With
// another one, a second daemon had a session in between.
func slept(t *testing.T, another bool) (w *world, sleeper *site.Node) {
	t.Helper()
	w = calm(t, of(300, 100), Behaviour{mode: greedy})
	w.pass(t, 10*time.Second)
	sleeper = w.NodeOf(0)
	for !sleeper.Calling {
		w.pass(t, 10*time.Millisecond)
	}
	sleeper.Pause(int64(40 * time.Second))
	if another {
		w.StartNode(0, true, 0)
	}
	w.pass(t, 20*time.Second)
	w.Stores[0].Flush()
	w.pass(t, 25*time.Second)
	return w, sleeper
}

// A daemon that slept through a session of another of its region, and then through the
// loss of the store's contents, is replaced as doc.go says, although an answer to it
// was waiting when it woke; the other one stays.
func TestOutdatedDaemonIsReplaced(t *testing.T) {
	w, sleeper := slept(t, true)
	if !sleeper.Dead {
		t.Error("it goes on by what it believes to have")
	}
	if other := w.NodeOf(0); other == nil || other.Last != w.Opened[0] || other.Last == sleeper.Last {
		t.Error("the other one has not gone on")
	}
}

// The only daemon of its region is kept, whatever it slept through.
func TestOnlyDaemonIsKept(t *testing.T) {
	if w, sleeper := slept(t, false); sleeper.Dead || w.NodeOf(0) != sleeper {
		t.Error("it was replaced")
	}
}

// The world in which an answer that was too late counted as a sign that its daemon was
// not outdated.
func TestAnswerThatWaitedForItsDaemon(t *testing.T) {
	if v := One(4003, Options{}); v != nil {
		t.Error(v)
	}
}
