package lua

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
)

// LearnEpoch is the redis epoch of the contents behind c, minted with nonce if
// there is none or if the server is not the process that it names, or was promoted
// since: a restart may bring back old contents, a failover lose the latest. It takes
// three round trips and leaves the same epoch for all who ask the same server. nonce must be fresh
// random text without a colon. stale, which may be nil, tells epochs whose contents are
// not to be relied on any more: they get a new one, too.
func LearnEpoch(ctx context.Context, c redis.Cmdable, nonce string, stale func(epoch string) bool) (string, error) {
	if nonce == "" || strings.Contains(nonce, ":") {
		return "", fmt.Errorf("%w: nonce %q", ErrInvalid, nonce)
	}
	process, promotion, err := Server(ctx, c)
	if err != nil {
		return "", fmt.Errorf("lua: learn epoch: %w", err)
	}
	found, err := c.Get(ctx, EpochKey).Result()
	if err != nil && err != redis.Nil {
		return "", fmt.Errorf("lua: learn epoch: GET %s: %w", EpochKey, err)
	}
	if Names(found, process, promotion) && (stale == nil || !stale(found)) {
		return found, nil
	}
	epoch, err := c.Eval(ctx, mintSource, []string{EpochKey}, found, nonce, process+promotion).Text()
	if err != nil {
		return "", fmt.Errorf("lua: learn epoch: mint: %w", err)
	}
	return epoch, nil
}

// Server asks a server for its process, by RunID, and for its latest promotion, by
// Promotion. It takes one round trip.
func Server(ctx context.Context, c redis.Cmdable) (process, promotion string, err error) {
	pipe := c.Pipeline()
	server, replication := pipe.Info(ctx, "server"), pipe.Info(ctx, "replication")
	if _, err := pipe.Exec(ctx); err != nil {
		return "", "", fmt.Errorf("INFO: %w", err)
	}
	if process = RunID(server.Val()); process == "" {
		return "", "", errors.New("INFO server names no run_id; is this a Redis server?")
	}
	return process, Promotion(replication.Val()), nil
}

// Names reports whether an epoch is that of servers, and names the promotion that each of
// them has, empty for those that have none.
func Names(epoch, servers string, promotions ...string) bool {
	if _, ok := limit.EpochBirth(epoch); !ok {
		return false
	}
	named, _, _ := strings.Cut(strings.Split(epoch, ":")[1], "-")
	return named == servers && !slices.ContainsFunc(promotions, func(p string) bool { return !strings.Contains(epoch, p) })
}

// Promotion names the latest promotion of a server that was a replica, from what INFO says
// of its replication: "-" and eight hex digits of its second replication id, which is the
// id of the writes that it replicated until then. Each promotion brings another one, also
// of a primary that failed over, followed, and took over again in one process. Empty if
// there was none, or if the server has forgotten it: it had no replica for its
// repl-backlog-ttl, an hour as a rule.
func Promotion(info string) string {
	second := field(info, "master_replid2")
	if len(second) < promotionDigits || strings.Trim(second[:promotionDigits], "0") == "" {
		return ""
	}
	return "-" + second[:promotionDigits]
}

// promotionDigits are as many as prelude.lua looks for.
const promotionDigits = 8

// RunID is the run id of a server, from what INFO says of it: another process has another.
// Empty if there is none.
func RunID(info string) string { return field(info, "run_id") }

// EvictionPolicy is what a server does when its memory is full, from what INFO says of it. Empty if it
// says nothing.
func EvictionPolicy(info string) string { return field(info, "maxmemory_policy") }

// field is the value of one line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
