package session

import (
	"context"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/roster"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// slowList is a list of daemons with nobody else in it, which takes a while to read.
type slowList struct{}

// Roster answers after 50 ms.
func (slowList) Roster(ctx context.Context, _ string, _ roster.Call) (roster.Reply, error) {
	select {
	case <-ctx.Done():
		return roster.Reply{}, ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return roster.Reply{Number: 1, Last: 1}, nil
	}
}

// TestAReturnWaitsForTheListOfDaemons: a daemon that comes back to other contents tells them what it remembers with the
// shares of its first session. Nothing is told before the list of daemons was read, so the shares wait for that.
func TestAReturnWaitsForTheListOfDaemons(t *testing.T) {
	inStore(t, func(t *testing.T, s *Session, _ *silentChanges) {
		s.others = NewOthers(OthersConfig{
			Store: slowList{}, Authority: s.auth, Emergency: s.emergency, Policies: s.policies, Metrics: s.metrics, Log: s.log,
			Now: s.auth.Now, Self: 7,
		})
		s.returns = &Return{Place: 1, Terms: s.Terms()}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.others.Run(ctx, s.store.(Calls)) }()
		in := &aliquotv1.HelloRequest{RedisEpoch: s.auth.CurrentEpoch()}
		s.comeBack(ctx, in, &aliquotv1.HelloResponse{PlaceKept: true}, budget.HelloAnswered{})
		if s.others.Unread() {
			t.Error("it goes on although the list was not read")
		}
		cancel()
		<-ended
	})
}
