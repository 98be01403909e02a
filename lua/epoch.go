package lua

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"aliquot/limit"
)

// NewNonce returns a random text that the contents of no other store have.
func NewNonce() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	return hex.EncodeToString(b[:])
}

// LearnEpoch returns the redis epoch of the contents behind c. It creates one with nonce if there
// is none, if the server is not the process that the epoch names, or if the server was promoted
// since: a restart may bring back old contents, and a failover may lose the latest. It takes three
// round trips, and leaves the same epoch for all callers of the same server.
//
// nonce must be fresh random text without a colon. stale, which may be nil, reports epochs whose
// contents must no longer be relied on: they are replaced too.
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
		return "", fmt.Errorf("lua: learn epoch: create: %w", err)
	}
	return epoch, nil
}

// Server asks a server for its process, as RunID returns it, and for its latest promotion, as
// Promotion returns it. It takes one round trip.
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

// Names reports whether an epoch belongs to servers and names each of the promotions. An empty
// promotion stands for a server that has none.
func Names(epoch, servers string, promotions ...string) bool {
	of, named, ok := read(epoch)
	unnamed := func(promotion string) bool { return promotion != "" && !slices.Contains(named, promotion) }
	return ok && of == servers && !slices.ContainsFunc(promotions, unnamed)
}

// read returns the servers that an epoch belongs to, and the promotions that it names. ok is false for a text that is
// no epoch.
func read(epoch string) (servers string, promotions []string, ok bool) {
	if _, ok := limit.EpochBirth(epoch); !ok {
		return "", nil, false
	}
	servers, rest, found := strings.Cut(strings.Split(epoch, ":")[1], "-")
	for found {
		var digits string
		digits, rest, found = strings.Cut(rest, "-")
		promotions = append(promotions, "-"+digits)
	}
	return servers, promotions, true
}

// maxKept bounds the names of the epoch before that a new one keeps.
const maxKept = 16

// Name returns what an epoch says of its servers and their promotions. It keeps the latest names in the epoch before
// if that was of the same servers: another caller may require names that this one does not know, and without them
// the two would create epochs in turns for ever.
func Name(before, servers string, promotions []string) string {
	names := slices.Clone(promotions)
	if of, earlier, ok := read(before); ok && of == servers {
		for _, promotion := range earlier {
			if len(names) < len(promotions)+maxKept && !slices.Contains(promotions, promotion) {
				names = append(names, promotion)
			}
		}
	}
	return servers + strings.Join(names, "")
}

// Promotion returns the name of the latest promotion of a server that was a replica, from the
// replication section of INFO. The name is "-" and eight hex digits of the second replication id:
// the id of the writes that the server replicated until then. Each promotion brings a new one, even
// for a primary that failed over, followed, and took over again in one process. It is empty if
// there was no promotion. It is also empty if the server has forgotten it, because it had no
// replica for its repl-backlog-ttl, by default an hour.
func Promotion(info string) string {
	second := field(info, "master_replid2")
	if len(second) < promotionDigits || strings.Trim(second[:promotionDigits], "0") == "" {
		return ""
	}
	return "-" + second[:promotionDigits]
}

// promotionDigits is how many digits prelude.lua reads.
const promotionDigits = 8

// RunID returns the run id of a server from INFO, or "" if there is none. Another process has
// another run id.
func RunID(info string) string { return field(info, "run_id") }

// Hz returns how many times a second a server drops keys that have ended, from INFO, or 0 if INFO does not say.
func Hz(info string) int {
	hz, _ := strconv.Atoi(field(info, "configured_hz")) // hz itself follows the number of clients
	return hz
}

// EvictionPolicy returns what a server does when its memory is full, from INFO, or "" if INFO does
// not say.
func EvictionPolicy(info string) string { return field(info, "maxmemory_policy") }

// AppendOnly reports whether a server keeps a log of its writes on its disk, from INFO.
func AppendOnly(info string) bool { return field(info, "aof_enabled") == "1" }

// Snapshots returns how many snapshots a server has written to its disk since its start, from INFO.
// It is 0 for servers before Redis 7.0, which do not say.
func Snapshots(info string) int {
	n, _ := strconv.Atoi(field(info, "rdb_saves")) // what is no number is not said
	return n
}

// field returns the value of one line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
