package lua

import (
	"context"
	"crypto/sha1" // #nosec: what EVALSHA names scripts by, not for secrecy
	_ "embed"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

//go:embed prelude.lua
var preludeSource string

//go:embed records.lua
var recordsSource string

//go:embed text.lua
var textSource string

//go:embed windows.lua
var windowsSource string

//go:embed log.lua
var logSource string

//go:embed counted.lua
var countedSource string

//go:embed usual.lua
var usualSource string

//go:embed pack.lua
var packSource string

//go:embed take.lua
var takeSource string

//go:embed view.lua
var viewSource string

//go:embed apply.lua
var applySource string

//go:embed mint.lua
var mintSource string

//go:embed spread.lua
var spreadSource string

// What records.lua uses of prelude.lua, in the order in which take.lua passes it, and what take.lua
// uses of records.lua.
const (
	recordsUse = "EXACT, MAX_CHUNK_LIFE, EPOCH, SHARES_LAST, floor, max, min, format, match, byte, tonumber, call, " +
		"now, STAMP, SINCE, BIRTH, FLOOR_SINCE, LIMBO, LIVE, FLOOR, PHASE, phase, KNOWN, PLAIN, PLAIN_NOW, " +
		"LENT, LENT_NOW, clamp, refill, earn_lent, out, ttl, text_at, records, limits_of, order, expires, " +
		"lent_ttl, slower"
	recordsMake = "parse, settle, spend, keep, save"
)

// script is a script's text, with the name by which Redis knows it.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Scripts runs the scripts on one Redis. It is safe for concurrent use.
type Scripts struct {
	client    redis.UniversalClient
	take      script // for buckets only, and therefore faster
	mixed     script // a take that has counting limits
	apply     script
	reserve   script
	settle    script
	adjust    script
	mint      script
	propagate script
	roster    script
	words     sync.Pool // of *words, for takes
}

// New returns Scripts over a client, which the caller must close. A nil client is for calls that
// the caller sends itself; see call.go.
func New(client redis.UniversalClient) *Scripts {
	all := preludeSource + recordsSource + textSource + windowsSource + logSource + countedSource
	buckets := preludeSource + "local " + recordsMake + "\nlocal function define_records(" + recordsUse + ")\n" +
		recordsSource + "return " + recordsMake + "\nend\n"
	return &Scripts{
		client:    client,
		take:      newScript(buckets + usualSource + takeSource + packSource),
		mixed:     newScript(all + usualSource + takeSource + packSource),
		apply:     newScript(all + viewSource + applySource),
		reserve:   newScript(reserveSource + all + usualSource + "local function take()\n" + takeSource + "return reply, n\nend\n" + reserveEndSource + packSource),
		settle:    newScript(settleSource + all + viewSource + adjustSource + settleEndSource),
		adjust:    newScript(all + viewSource + adjustSource + adjustEndSource),
		mint:      newScript(mintSource),
		propagate: newScript(spreadSource),
		roster:    newScript(rosterSource),
	}
}

// run calls a script once per argument list, in one round trip, and returns the replies in order. A
// call is args[2:] = number of keys, keys, arguments; run fills the first two places. If Redis did
// not know the script, the call did nothing. It is sent again once with the script's text, because
// some proxies block SCRIPT LOAD.
func (s *Scripts) run(ctx context.Context, sc script, calls [][]any) ([][]any, error) {
	replies := make([][]any, len(calls))
	pending := make([]int, len(calls))
	for i := range calls {
		pending[i] = i
	}
	for _, how := range [][2]string{{"evalsha", sc.sha}, {"eval", sc.source}} {
		cmds, err := s.send(ctx, how, calls, pending)
		var unknown []int
		for i, cmd := range cmds {
			switch e := cmd.Err(); {
			case e != nil && how[0] == "evalsha" && redis.HasErrorPrefix(e, "NOSCRIPT"):
				unknown = append(unknown, pending[i])
			case e != nil:
				return nil, e
			default:
				reply, e := cmd.Slice()
				if e != nil {
					return nil, fmt.Errorf("reply: %w", e)
				}
				replies[pending[i]] = reply
			}
		}
		if len(unknown) == 0 {
			return replies, nil
		}
		if how[0] == "eval" {
			return nil, err
		}
		pending = unknown
	}
	return replies, nil
}

func (s *Scripts) send(ctx context.Context, how [2]string, calls [][]any, pending []int) ([]*redis.Cmd, error) {
	cmds := make([]*redis.Cmd, len(pending))
	if len(pending) == 1 {
		args := calls[pending[0]]
		args[0], args[1] = how[0], how[1]
		cmds[0] = s.client.Do(ctx, args...)
		return cmds, cmds[0].Err()
	}
	pipe := s.client.Pipeline()
	for i, p := range pending {
		args := calls[p]
		args[0], args[1] = how[0], how[1]
		cmds[i] = pipe.Do(ctx, args...)
	}
	_, err := pipe.Exec(ctx)
	return cmds, err
}

// refusal returns the error of a reply that did nothing, an *EpochError or a *LateError, or nil for
// any other reply.
func refusal(reply []any) error {
	if len(reply) != 2 {
		return nil
	}
	switch reply[0] {
	case int64(-1):
		actual, _ := reply[1].(string)
		return &EpochError{Actual: actual}
	case int64(-2):
		now, _ := reply[1].(int64)
		return &LateError{Now: now}
	}
	return nil
}

// integers turns a reply into numbers; the first is the store's clock. The error for a refusal is
// an *EpochError or a *LateError.
func integers(reply []any, want int) ([]int64, error) {
	if err := refusal(reply); err != nil {
		return nil, err
	}
	if len(reply) != want {
		return nil, fmt.Errorf("reply of %d numbers, want %d", len(reply), want)
	}
	out := make([]int64, want)
	for i, v := range reply {
		n, ok := v.(int64)
		if !ok {
			return nil, fmt.Errorf("reply %d is a %T, not a number", i, v)
		}
		out[i] = n
	}
	return out, nil
}
