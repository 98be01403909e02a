package load

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timer sleeps to within some fifty microseconds. The runtime's own timers are late by
// up to a millisecond while a process has nothing else to do, which would be most of the
// latency measured.
type timer struct {
	file *os.File
	fd   int
	read [8]byte
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &timer{file: os.NewFile(uintptr(fd), "timer"), fd: fd}, nil
}

// sleep returns after d.
func (t *timer) sleep(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if unix.TimerfdSettime(t.fd, 0, &spec, nil) == nil {
		if _, err := t.file.Read(t.read[:]); err == nil {
			return
		}
	}
	time.Sleep(d)
}

func (t *timer) close() { t.file.Close() }
