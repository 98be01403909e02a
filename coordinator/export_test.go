package coordinator

import "time"

// CutOffAfter returns a configuration of a daemon that waits so long, when it stops, for requests in progress.
func CutOffAfter(c Config, wait time.Duration) Config {
	c.cutOffAfter = wait
	return c
}
