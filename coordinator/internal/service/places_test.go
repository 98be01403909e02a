package service

import (
	"errors"
	"testing"
	"time"

	"aliquot/coordinator/internal/claims"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// open has a daemon of us open a session, which says that its place is place.
func (h *helloTest) open(incarnation, place uint64) *aliquotv1.HelloResponse {
	h.t.Helper()
	h.now = h.now.Add(time.Millisecond) // later than the proof before
	out := make(chan helloResult, 1)
	req := &aliquotv1.HelloRequest{Region: "us", Incarnation: incarnation, RedisEpoch: "n:r:1", Nonce: incarnation, Place: place}
	go func() {
		res, err := h.service.hello(h.t.Context(), h.Loop, req)
		out <- helloResult{res, err}
	}()
	h.runPosted()
	h.ProofDone(h.t.Context(), get(h.t, "the proof of leadership", h.Proof()))
	got := get(h.t, "the session", out)
	if got.err != nil || got.GetSession() == 0 {
		h.t.Fatalf("the session of %d: %v, %v", incarnation, got.HelloResponse, got.err)
	}
	return got.HelloResponse
}

// leave has a daemon stop that has a session, and asks for a place.
func (h *helloTest) leave(session *aliquotv1.HelloResponse, place uint64) {
	h.t.Helper()
	if err := h.lastWord(session, place); err != nil {
		h.t.Fatal(err)
	}
	h.now = h.now.Add(claims.DaemonTimeout)
}

// lastWord is leave, and returns why the place is not kept.
func (h *helloTest) lastWord(session *aliquotv1.HelloResponse, place uint64) error {
	h.t.Helper()
	done := make(chan error, 1)
	req := &aliquotv1.ReportRequest{Region: "us", Epoch: session.GetEpoch(), Session: session.GetSession(), Leaving: true, Place: place}
	go func() { done <- h.service.daemonLeaves(h.t.Context(), h.Loop, 0, req) }()
	h.runPosted() // whether it has the session
	h.runPosted() // that it has left
	return get(h.t, "the end of the last word", done)
}

// TestAPlaceIsKeptForTheDaemonThatComesBack: a daemon that had the session when it stopped finds its place, as often as
// it asks, and no other daemon does.
func TestAPlaceIsKeptForTheDaemonThatComesBack(t *testing.T) {
	h := newHelloTest(t)
	h.leave(h.open(2, 0), 77)
	for range 2 {
		if !h.open(3, 77).GetPlaceKept() {
			t.Error("the place is not kept for the daemon that comes back")
		}
	}
	h.now = h.now.Add(claims.DaemonTimeout)
	if h.open(4, 77).GetPlaceKept() {
		t.Error("a place is kept for a second run")
	}
}

// TestAnotherDaemonTakesThePlace: no place is kept for a daemon whose region another one has served since, by whatever
// Hello, nor for one that had no session when it stopped.
func TestAnotherDaemonTakesThePlace(t *testing.T) {
	for what, meanwhile := range map[string]func(h *helloTest){
		"another one has a session": func(h *helloTest) {
			h.open(5, 0)
			h.now = h.now.Add(claims.DaemonTimeout)
		},
		"another one has another place": func(h *helloTest) {
			h.open(5, 78)
			h.now = h.now.Add(claims.DaemonTimeout)
		},
		"another one has no store": func(h *helloTest) {
			h.expectFloor("a daemon without a store", 5, you)
			h.now = h.now.Add(claims.DaemonTimeout)
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHelloTest(t)
			h.leave(h.open(2, 0), 77)
			h.now = h.now.Add(h.Loop.FloorAfterUse())
			meanwhile(h)
			if h.open(3, 77).GetPlaceKept() {
				t.Error("the place is kept")
			}
		})
	}
	t.Run("it has no session any more", func(t *testing.T) {
		h := newHelloTest(t)
		first := h.open(2, 0)
		h.now = h.now.Add(claims.DaemonTimeout)
		h.open(5, 0)
		if err := h.lastWord(first, 77); !errors.Is(err, errNoPlace) {
			t.Error(err)
		}
		h.now = h.now.Add(claims.DaemonTimeout)
		if h.open(3, 77).GetPlaceKept() {
			t.Error("the place is kept")
		}
	})
	t.Run("another one may have the floor already", func(t *testing.T) {
		h := newHelloTest(t)
		first := h.open(2, 0)
		h.now = h.now.Add(claims.DaemonTimeout)
		h.expectFloor("a daemon without a store", 5, aliquotv1.FloorHolder_FLOOR_HOLDER_NOBODY)
		if err := h.lastWord(first, 77); !errors.Is(err, errNoPlace) {
			t.Error(err)
		}
		h.now = h.now.Add(claims.DaemonTimeout)
		if h.open(3, 77).GetPlaceKept() {
			t.Error("the place is kept")
		}
	})
	t.Run("while a Hello is answered", func(t *testing.T) {
		h := newHelloTest(t)
		first := h.open(2, 0)
		h.now = h.now.Add(claims.DaemonTimeout)
		opening := h.sendHello(t.Context(), 5, "n:r:1")
		h.runPosted()
		proof := get(t, "the proof of leadership", h.Proof())
		err := h.service.places.keep(t.Context(), h.Loop, 0, &aliquotv1.ReportRequest{Region: "us", Epoch: first.GetEpoch(), Session: first.GetSession(), Place: 77}, &h.service.claims)
		if !errors.Is(err, errPlaceWaits) {
			t.Error(err)
		}
		h.ProofDone(t.Context(), proof)
		get(t, "the session", opening)
		h.now = h.now.Add(claims.DaemonTimeout)
		if h.open(3, 77).GetPlaceKept() {
			t.Error("the place is kept")
		}
	})
}
