package lua

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
)

// LearnEpoch is the redis epoch of the contents behind c, minted with nonce if
// there is none or if the server is not the process that it names: a restart may
// bring back old contents, a failover lose the latest. It takes three round trips
// and leaves the same epoch for all who ask the same server. nonce must be fresh
// random text without a colon. stale, which may be nil, tells epochs whose contents are
// not to be relied on any more: they get a new one, too.
func LearnEpoch(ctx context.Context, c redis.Cmdable, nonce string, stale func(epoch string) bool) (string, error) {
	if nonce == "" || strings.Contains(nonce, ":") {
		return "", fmt.Errorf("%w: nonce %q", ErrInvalid, nonce)
	}
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("lua: learn epoch: INFO server: %w", err)
	}
	runID := RunID(info)
	if runID == "" {
		return "", fmt.Errorf("lua: learn epoch: INFO server names no run_id; is this a Redis server?")
	}
	found, err := c.Get(ctx, EpochKey).Result()
	if err != nil && err != redis.Nil {
		return "", fmt.Errorf("lua: learn epoch: GET %s: %w", EpochKey, err)
	}
	if _, ok := limit.EpochBirth(found); ok && strings.Split(found, ":")[1] == runID && (stale == nil || !stale(found)) {
		return found, nil
	}
	epoch, err := c.Eval(ctx, mintSource, []string{EpochKey}, found, nonce, runID).Text()
	if err != nil {
		return "", fmt.Errorf("lua: learn epoch: mint: %w", err)
	}
	return epoch, nil
}

// RunID is the run id of a server, from what INFO says of it: another process has another.
// Empty if there is none.
func RunID(info string) string { return field(info, "run_id") }

// field is the value of one line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
