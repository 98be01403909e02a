package load

import (
	"time"

	"aliquot/internal/bench/latency"
)

// pace says when one sender's next call goes out. It is not safe for concurrent use.
type pace struct {
	run   *run
	timer *timer // nil in a closed loop
}

func newPace(r *run) (*pace, error) {
	p := &pace{run: r}
	if !r.open() {
		return p, nil
	}
	var err error
	p.timer, err = newTimer()
	return p, err
}

// next waits until a call is due. It returns from when the call's latency counts, now in
// a closed loop, and false once the run is over. late gets how much later than due it
// returns.
func (p *pace) next(late *latency.Histogram) (sent time.Duration, ok bool) {
	if p.timer == nil {
		sent = p.run.now()
		return sent, sent < p.run.until
	}
	sent = p.run.due()
	if sent >= p.run.until {
		return 0, false
	}
	now := p.run.now()
	if now >= p.run.until {
		return 0, false
	}
	if wait := sent - now; wait > 0 {
		p.timer.sleep(wait)
		now = p.run.now()
	}
	if now >= p.run.from {
		late.Add(now - sent)
	}
	return sent, true
}

func (p *pace) close() {
	if p.timer != nil {
		p.timer.close()
	}
}
