package emergency

import (
	"testing"

	"aliquot/budget"
	"aliquot/internal/storeclock"
)

// TestWhatStandsAfterALoss: what was charged without the store is still owed to contents that begin before any debt was
// paid. If one was paid first, or if the store was told of the charge, it is lost with the contents.
func TestWhatStandsAfterALoss(t *testing.T) {
	for name, is := range map[string]struct {
		events string // l: the contents are lost, p: a debt is paid or told
		stands bool
	}{
		"nothing happened": {"", true}, "lost": {"l", true}, "lost twice": {"ll", true}, "paid": {"p", true},
		"lost and paid": {"lp", true}, "paid and lost": {"pl", false}, "lost, paid and lost": {"lpl", false},
	} {
		e := New(func() budget.Instant { return 0 }, storeclock.New(), nil)
		e.see("contents-0", 0)
		e.Hands()
		e.see("contents-1", 0) // of a loss before the charge nothing counts
		m := e.Moment()
		for i, event := range is.events {
			if event == 'p' {
				e.Hands()
			} else {
				e.see("contents-after-"+string(rune('a'+i)), 0)
			}
		}
		if stands, same := e.Stands(m); stands != is.stands || same != (is.events == "" || is.events == "p") {
			t.Errorf("%s: stands %v, the same contents %v", name, stands, same)
		}
	}
}
