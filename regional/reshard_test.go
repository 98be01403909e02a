package regional

import (
	"fmt"
	"strings"
	"testing"

	"aliquot/lua"
	"aliquot/lua/redistest"
	"aliquot/regional/internal/modes"
	"aliquot/regional/internal/storeguard"
)

const reshardRules = `
defaults: {enforcement: strict, local_cache: false, on_redis_failure: closed}
rules:
  - id: r0
    key: [api_key]
    params: {capacity: 1000, refill_rate: 0.001}
  - id: r1
    match: {attributes: {more: "yes"}}
    key: [api_key]
    params: {capacity: 1000, refill_rate: 0.001}
`

// TestReshard: while an operator moves a slot of a Redis Cluster, a check of it that either
// server can decide (ASK, then MOVED) is decided, one that neither can (TRYAGAIN) is answered
// by its rule's own choice, and those of other slots do not notice. What was spent stays
// spent.
func TestReshard(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, 3)
	c := testConfig(newLeader(t, reshardRules).address())
	c.Redis = servers.URL()
	d, _ := startLive(t, c)
	moves, stays := clientOn(d, 0), clientOn(d, 1)
	a := &planOf(d, moves).Groups[0].Charges[0]
	slot := lua.SlotOf(lua.Key(a.Limit.Algorithm, a.Key.Rule, a.Key.Hash))
	passed, refused := int64(0), int64(0) // of the client whose slot moves
	var last answerOf
	byStore := func(client string) bool {
		last = check(t, d, client)
		switch {
		case client != moves:
		case last.Allowed:
			passed++
		default:
			refused++
		}
		return last.Mode == modes.Store
	}
	eventually(t, "the store decides", func() bool { return byStore(moves) && byStore(stays) })
	eventually(t, "the store says how much there is", func() bool { return byStore(moves) })
	began := last.Remaining
	passed, refused = 0, 0
	// A step moves two keys, which is the epoch's and the record. Then the second rule's has
	// to be made, which neither server does while the slot is on its way the first time.
	for _, way := range [][2]int{{0, 1}, {1, 2}, {2, 0}} {
		servers.Move(t, slot, way[0], way[1], func() {
			for range 2 * storeguard.TripAfter {
				a := post(t, d, fmt.Sprintf(`{"attributes":{"api_key":%q,"more":"yes"}}`, moves))
				switch {
				case a.Status == 200 && a.Mode == modes.FailClosed && !a.Allowed:
					refused++
				case a.Mode == modes.Store && a.Allowed && way[0] != 0:
					passed++ // a call that its caller gave up has made the record since
				default:
					t.Errorf("a check that nobody can decide: %+v", a)
				}
			}
			for _, client := range []string{moves, stays} {
				if !byStore(client) && !missedDeadlines(t)(d) {
					t.Errorf("a check that a server can decide was not")
				}
			}
		})
		eventually(t, "the store decides what has moved", func() bool { return byStore(moves) })
	}
	now := scrape(t, d)
	// The reason is "tryagain", unless the caller's patience ended before the last answer.
	for _, want := range []string{`aliquot_store_errors_total{op="take",reason="`, `aliquot_store_circuit_open{shard="store"} 0`} {
		if !strings.Contains(now, want) {
			t.Errorf("no %s", want)
		}
	}
	eventually(t, "the store says what is left", func() bool { return byStore(moves) })
	// What the store charged and nobody heard of is gone too, and no more than that.
	if left, most := last.Remaining, began-passed; left > most || left < most-refused {
		t.Errorf("%d remain of %d, of which %d passed", left, began, passed)
	}
}
