package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"aliquot/lua"
)

// access is a client with its connections. A Redis replaces it as a whole once its connections are
// useless: go-redis keeps a connection while it works, and a primary that became a replica still
// answers, with refusals. After some failed dials go-redis also refuses calls for up to a second,
// without a look whether the server is back.
type access struct {
	client  *redis.Client
	scripts *lua.Scripts
	// applies are the scripts for changes of shares, over the same connections. A call has many
	// changes, and no client waits for its reply. So it may take as long as its context.
	applies *lua.Scripts
}

// applyTimeout bounds each read and write of changes of shares. A context may shorten it.
const applyTimeout = 5 * time.Second

// newAccess returns a new access. Before the first call it dials nothing but idle connections.
func (s *Redis) newAccess() *access {
	a := &access{client: redis.NewClient(&s.dialOptions)}
	a.scripts = lua.New(a.client)
	a.client.AddHook(replicaHook{onReplica: func() { s.replaceReplica(a) }})
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
	_ = old.client.Close() // nobody uses it any more, so its error does not matter
}

// replaceReplica replaces the connections of an access whose server turned out to be a replica.
func (s *Redis) replaceReplica(a *access) {
	if s.sentinels != nil {
		s.sentinels.doubt("")
	}
	s.renew(a)
}

// replicaHook is a hook that calls onReplica whenever a server answers that it is a replica.
type replicaHook struct{ onReplica func() }

// DialHook implements redis.Hook. It changes nothing.
func (h replicaHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h replicaHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if isReplicaError(err) {
			h.onReplica()
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h replicaHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if isReplicaError(cmd.Err()) {
				h.onReplica()
				break
			}
		}
		return err
	}
}

func isReplicaError(err error) bool { return err != nil && redis.HasErrorPrefix(err, "READONLY") }
