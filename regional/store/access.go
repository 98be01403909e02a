package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/lua"
)

// access is a client with its connections. It is replaced as a whole where they are of no
// use any more: go-redis keeps connections for as long as they work, and a primary that
// became a replica goes on answering, with refusals; and after some failed dials it refuses
// calls for up to a second without a look at whether the server is back.
type access struct {
	client  *redis.Client
	scripts *lua.Scripts
	// applies are the scripts for changes of shares, on the same connections: many at once, and
	// nobody waits for their reply as a check does, so it may take as long as their context.
	applies *lua.Scripts
}

// applyTimeout bounds each read and write of changes of shares; a context may shorten it.
const applyTimeout = 5 * time.Second

// newAccess makes one; nothing is dialled until the first call, but for idle connections.
func (s *Redis) newAccess() *access {
	a := &access{client: redis.NewClient(&s.dialled)}
	a.scripts = lua.New(a.client)
	a.client.AddHook(refusals{demoted: func() { s.demoted(a) }})
	a.applies = lua.New(a.client.WithTimeout(applyTimeout))
	return a
}

func (s *Redis) client() *redis.Client { return s.access.Load().client }

// Renew replaces all connections. Calls under way on them fail, and nobody knows whether
// they were made.
func (s *Redis) Renew() { s.renew(s.access.Load()) }

// renew is Renew, unless somebody else was faster.
func (s *Redis) renew(old *access) {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if s.closed || s.access.Load() != old {
		return
	}
	s.access.Store(s.newAccess())
	_ = old.client.Close() // it is of no use any more, however it ends
}

// demoted is told that the server behind an access is a replica.
func (s *Redis) demoted(a *access) {
	if s.sentinels != nil {
		s.sentinels.doubt("")
	}
	s.renew(a)
}

// refusals calls demoted whenever a server answers that it is a replica.
type refusals struct{ demoted func() }

func (h refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if ofReplica(err) {
			h.demoted()
		}
		return err
	}
}

func (h refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if ofReplica(cmd.Err()) {
				h.demoted()
				break
			}
		}
		return err
	}
}

func ofReplica(err error) bool { return err != nil && redis.HasErrorPrefix(err, "READONLY") }
