package compare

import (
	"testing"
	"time"
)

// TestYardstick: a denial of what an exact bucket admits is false, unless more was admitted
// before than the bucket had.
func TestYardstick(t *testing.T) {
	y := NewYardstick(Bucket{Capacity: 2, Rate: 1})
	for i, ask := range []struct {
		at             time.Duration
		ideally, admit int
		false          int
	}{
		{0, 1, 1, 0},
		{0, 1, 0, 1},           // denied, and there was one
		{0, 0, 1, 1},           // one more than there was
		{time.Second, 1, 0, 1}, // which pays for that
		{2 * time.Second, 1, 0, 2},
		{2 * time.Second, 0, 0, 2},
	} {
		ideally := y.Ask(ask.at)
		y.Answered(ideally, ask.admit)
		if ideally != ask.ideally || y.FalseRejections() != ask.false {
			t.Errorf("request %d: the bucket admits %d, %d were denied falsely", i, ideally, y.FalseRejections())
		}
	}
}
