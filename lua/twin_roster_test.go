package lua

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"aliquot/budget"
	"aliquot/internal/roster"
	"aliquot/lua/redistest"
)

// TestRosterTwins runs generated calls on the list of daemons on a real Redis and on
// roster.List, given the time that Redis reports: same answers.
func TestRosterTwins(t *testing.T) {
	server, ctx := redistest.Start(t), context.Background()
	client, draw := server.Client(t), rand.New(rand.NewPCG(seedOf(t), 1))
	s := New(client)
	epoch, err := LearnEpoch(ctx, client, "twin", nil)
	if err != nil {
		t.Fatal(err)
	}
	var list roster.List
	seen := map[string]int{}
	for range 4000 {
		c := roster.Call{Self: budget.DaemonID(draw.Uint64N(3*budget.MaxDaemons) << 40), Number: draw.Uint64N(5), Read: draw.Uint64N(9), Leaves: draw.IntN(12) == 0}
		if draw.IntN(500) == 0 {
			old := roster.Entry{ID: 7 << 40, Read: 3, At: time.Now().Add(-25 * time.Hour).UnixMicro()}
			text := fmt.Sprintf("%d %016x:3:%d nonsense %016x:x:1", draw.IntN(9), uint64(old.ID), old.At, 8<<40)
			if err := client.Set(ctx, RosterKey, text, 0).Err(); err != nil {
				t.Fatal(err)
			}
			list = roster.List{Entries: []roster.Entry{old}}
			fmt.Sscan(text, &list.Last)
			seen["old and nonsense"]++
		}
		got, err := s.Roster(ctx, epoch, c)
		if err != nil {
			t.Fatal(err)
		}
		want := list.Answer(c, got.Now)
		if got.Number != want.Number || got.Last != want.Last || got.Was != want.Was || len(got.Others)+len(want.Others) > 0 && !reflect.DeepEqual(got.Others, want.Others) {
			t.Fatalf("after %+v the list is\n%+v, want\n%+v", c, got, want)
		}
		seen[fmt.Sprintf("was %v", got.Was)]++
		seen[fmt.Sprintf("leaves %v", c.Leaves)]++
		seen[fmt.Sprintf("full %v", len(got.Others) == budget.MaxDaemons-1)]++
	}
	for _, what := range []string{"old and nonsense", "was true", "was false", "leaves true", "full true", "full false"} {
		if seen[what] == 0 {
			t.Errorf("the generator never led to %q", what)
		}
	}
	_, err = s.Roster(ctx, "n:r:1", roster.Call{Self: 1})
	if other, ok := errors.AsType[*EpochError](err); !ok || other.Actual != epoch {
		t.Errorf("of other contents: %v", err)
	}
}
