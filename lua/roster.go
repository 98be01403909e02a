package lua

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"aliquot/budget"
	"aliquot/internal/roster"
	"aliquot/limit"
)

//go:embed roster.lua
var rosterSource string

// rosterNumbers is how many numbers a reply begins with.
const rosterNumbers = 4

// Roster sends a call to the list of the region's daemons and returns its reply; see package
// roster. The error is an *EpochError if the contents are not the expected ones.
func (s *Scripts) Roster(ctx context.Context, epoch string, c roster.Call) (roster.Reply, error) {
	replies, err := s.run(ctx, s.roster, [][]any{rosterArgs(epoch, c, RosterKey)})
	if err != nil {
		return roster.Reply{}, fmt.Errorf("lua: roster: %w", err)
	}
	return ReadRoster(replies[0])
}

// RosterCall returns the call of Roster for the slot of epochKey, which must also hold key.
func (s *Scripts) RosterCall(epochKey, key, epoch string, c roster.Call) *Call {
	return call(s.roster, epochKey, rosterArgs(epoch, c, key))
}

func rosterArgs(epoch string, c roster.Call, key string) []any {
	return []any{
		nil, nil, 2, EpochKey, key, epoch, fmt.Sprintf("%016x", uint64(c.Self)), c.Number, c.Read, bit(c.Leaves),
		roster.DropAfter.Milliseconds(), budget.MaxDaemons - 1,
	}
}

// ReadRoster reads the reply to a RosterCall.
func ReadRoster(reply []any) (roster.Reply, error) {
	var out roster.Reply
	if err := refusal(reply); err != nil {
		return out, err
	}
	n, err := integers(reply[:min(len(reply), rosterNumbers)], rosterNumbers)
	if err != nil {
		return out, err
	}
	out.Now, out.Number, out.Last, out.Was = n[0], uint64(n[1]), uint64(n[2]), n[3] == 1
	for rest := reply[rosterNumbers:]; len(rest) >= 3; rest = rest[3:] {
		text, _ := rest[0].(string)
		id, err := strconv.ParseUint(text, 16, 64)
		read, ok := rest[1].(int64)
		at, also := rest[2].(int64)
		if err != nil || !ok || !also || read < 0 || at < 0 || at > limit.MaxExact {
			return out, fmt.Errorf("lua: roster: a reply with a daemon %v, %v, %v", rest[0], rest[1], rest[2])
		}
		out.Others = append(out.Others, roster.Entry{ID: budget.DaemonID(id), Read: uint64(read), At: at})
	}
	return out, nil
}
