package regional

import "time"

// complaint is a failure that goes on, and what was last logged of it: that it is there, when
// it becomes another, and every so often while it lasts. Not safe for concurrent use.
type complaint struct {
	every time.Duration
	why   string // empty: nothing is complained of
	at    time.Time
}

// due tells whether the failure is to be logged now, and takes it to be done. why is not
// empty.
func (c *complaint) due(why string) bool {
	if why == c.why && time.Since(c.at) < c.every {
		return false
	}
	c.why, c.at = why, time.Now()
	return true
}

// over ends it, and tells whether anything was logged.
func (c *complaint) over() bool {
	logged := c.why != ""
	c.why = ""
	return logged
}
