package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/lua"
)

// access is a client with its connections. It is replaced as a whole once the connections are
// useless. go-redis keeps a connection for as long as it works, and a primary that became a replica
// still answers, with refusals. After some failed dials go-redis also refuses calls for up to a
// second without checking whether the server is back.
type access struct {
	client  *redis.Client
	scripts *lua.Scripts
	// applies are the scripts for changes of shares, over the same connections. There are many
	// changes at once, and no client waits for their reply as for that of a check. So such a call
	// may take as long as its context.
	applies *lua.Scripts
}

// applyTimeout bounds each read and write of changes of shares. A context may shorten it.
const applyTimeout = 5 * time.Second

// newAccess returns a new access. Nothing but idle connections is dialled before the first call.
func (s *Redis) newAccess() *access {
	a := &access{client: redis.NewClient(&s.dialled)}
	a.scripts = lua.New(a.client)
	a.client.AddHook(refusals{demoted: func() { s.demoted(a) }})
	a.applies = lua.New(a.client.WithTimeout(applyTimeout))
	return a
}

func (s *Redis) client() *redis.Client { return s.access.Load().client }

// Renew replaces all connections. Calls under way on them fail, and it is unknown whether they were
// executed.
func (s *Redis) Renew() { s.renew(s.access.Load()) }

// renew replaces all connections of old, unless another caller has already done so.
func (s *Redis) renew(old *access) {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if s.closed || s.access.Load() != old {
		return
	}
	s.access.Store(s.newAccess())
	_ = old.client.Close() // it is of no more use, so its error does not matter
}

// demoted handles the finding that the server behind an access is a replica.
func (s *Redis) demoted(a *access) {
	if s.sentinels != nil {
		s.sentinels.doubt("")
	}
	s.renew(a)
}

// refusals is a hook that calls demoted whenever a server answers that it is a replica.
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
