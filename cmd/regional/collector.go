package main

import "os"

// ballastBytes is the size of the ballast. The heap grows by 100 % of what lives before the garbage collector runs, and
// the ballast counts as living. A daemon has 5 to 15 MiB that live, and 4,000 checks a second leave 25 MB of garbage.
// By Go's default the collector would run three to five times a second, and p99 would show it.
const ballastBytes = 32 << 20

// ballast returns memory that the process must keep and never touch. It takes no room in RAM, because it is never
// written. Nil if GOGC in the environment sets the collector's pace.
func ballast() []byte {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return make([]byte, ballastBytes)
}
