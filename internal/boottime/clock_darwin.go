package boottime

import "golang.org/x/sys/unix"

// On Darwin the monotonic clock runs on during sleep.
const clock = unix.CLOCK_MONOTONIC
