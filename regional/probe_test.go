package regional

import (
	"context"
	"errors"
	"strings"
	"testing"

	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/storeguard"
)

// knownByConnection is a store whose first two questions for its contents have no answer. A new connection learns the
// contents before the second of them, and tells the daemon.
type knownByConnection struct {
	storeguard.Store
	asked int
	tell  func(epoch string)
}

// Epoch returns the contents from the third question on.
func (s *knownByConnection) Epoch(ctx context.Context) (string, error) {
	s.asked++
	if s.asked > 2 {
		return s.Store.Epoch(ctx)
	}
	if s.asked == 2 {
		epoch, err := s.Store.Epoch(ctx)
		if err != nil {
			return "", err
		}
		s.tell(epoch)
	}
	return "", errors.New("i/o timeout")
}

// TestAStoreThatAConnectionKnows: a daemon whose store answers is not without a store, even if another connection has
// learned the contents.
func TestAStoreThatAConnectionKnows(t *testing.T) {
	inNetwork(t, func(t *testing.T) {
		c := testConfig(newLeader(t, "rules: [{id: r0, params: {capacity: 100, refill_rate: 10}}]").address())
		d, _ := startLive(t, c, func(d *Daemon) {
			d.guard.Store = &knownByConnection{Store: d.guard.Store, tell: func(epoch string) {
				observer{d.auth, d.emergency, &d.lists}.StoreEpoch(epoch)
			}}
		})
		eventually(t, "the store decides", func() bool { return check(t, d, "k").Mode == modes.Store })
		if !strings.Contains(scrape(t, d), `aliquot_degraded{reason="store"} 0`) {
			t.Error("the metrics say that the store does not answer")
		}
	})
}
