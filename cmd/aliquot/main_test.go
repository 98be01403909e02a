package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
)

// A closed terminal ends a command as Ctrl-C does, unless it was started by nohup.
func TestClosedTerminal(t *testing.T) {
	defer signal.Reset(syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // heard, whatever started this test
	if !slices.Contains(endings(), os.Signal(syscall.SIGHUP)) {
		t.Error("a closed terminal ends a command without its leave")
	}
	signal.Ignore(syscall.SIGHUP)
	if slices.Contains(endings(), os.Signal(syscall.SIGHUP)) {
		t.Error("a command that was started by nohup hears of a closed terminal")
	}
}
