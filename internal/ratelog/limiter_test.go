package ratelog

import (
	"strconv"
	"testing"
	"time"
)

var start = time.Unix(1_700_000_000, 0)

func TestTheZeroValueAllowsSixtyLinesAMinute(t *testing.T) {
	var l Limiter
	for i := range 180 {
		if got := l.Allow("", start); got != (i < 60) {
			t.Fatalf("line %d: %v", i+1, got)
		}
	}
	if !l.Allow("", start.Add(time.Minute)) {
		t.Error("no line is allowed a minute later")
	}
}

func TestOneKeyIsLoggedOnceInEvery(t *testing.T) {
	l := Limiter{Every: 30 * time.Second}
	lines := 0
	for s := range 600 {
		if l.Allow("a", start.Add(time.Duration(s)*time.Second)) {
			lines++
		}
	}
	if lines != 20 {
		t.Errorf("%d lines in ten minutes, want 20", lines)
	}
	if !l.Allow("b", start.Add(600*time.Second)) {
		t.Error("another key is not allowed")
	}
}

func TestAllKeysShareTheMinute(t *testing.T) {
	l := Limiter{Every: time.Minute, PerMinute: 10}
	lines := 0
	for i := range 1000 {
		if l.Allow(strconv.Itoa(i%20), start.Add(time.Duration(i)*time.Millisecond)) {
			lines++
		}
	}
	if lines != 10 {
		t.Errorf("%d lines in a second, want 10", lines)
	}
}

func TestKeysAreForgotten(t *testing.T) {
	l := Limiter{Every: time.Minute}
	for i := range 10_000 {
		l.Allow(strconv.Itoa(i), start.Add(time.Duration(i)*time.Second))
	}
	if len(l.logged) > 2*60 {
		t.Errorf("%d keys are remembered", len(l.logged))
	}
}

func TestResetTellsWhetherALineWasLogged(t *testing.T) {
	l := Limiter{Every: time.Hour}
	if l.Reset() {
		t.Error("a line was logged before the first")
	}
	l.Allow("down", start)
	if l.Allow("down", start) || !l.Reset() || l.Reset() {
		t.Error("the failure was logged once, and its end should be told once")
	}
	if !l.Allow("down", start) {
		t.Error("the next failure is not logged")
	}
}
