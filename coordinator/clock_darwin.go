package coordinator

import "golang.org/x/sys/unix"

// On Darwin the monotonic clock runs on during sleep.
const bootClockID = unix.CLOCK_MONOTONIC
