//go:build !linux

package load

import "time"

// timer sleeps by the runtime's timers, which may be late by a millisecond; how late is
// in the report.
type timer struct{}

func newTimer() (*timer, error) { return &timer{}, nil }

func (*timer) sleep(d time.Duration) { time.Sleep(d) }

func (*timer) close() {}
