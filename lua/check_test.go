package lua

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"aliquot/limit"
)

const checkedEpoch = "6f1e-1"

// The scripts count only with what they can count exactly. Each bound is checked at its border, which
// passes, and one beyond it.
func TestWhatTheScriptsCannotCountIsRefused(t *testing.T) {
	const most = limit.MaxTokens
	for what, change := range map[string]struct{ passes, refused func(*limit.View) }{
		"debits":         {func(v *limit.View) { v.Debit = 0 }, func(v *limit.View) { v.Debit = -1 }},
		"costs":          {func(v *limit.View) { v.Cost = limit.MaxExact }, func(v *limit.View) { v.Cost = limit.MaxExact + 1 }},
		"least costs":    {func(v *limit.View) { v.Cost = 0 }, func(v *limit.View) { v.Cost = -1 }},
		"phases":         {func(v *limit.View) { v.Phase = limit.Floor }, func(v *limit.View) { v.Phase = limit.Floor + 1 }},
		"generations":    {func(v *limit.View) { v.Gen = limit.MaxExact }, func(v *limit.View) { v.Gen = limit.MaxExact + 1 }},
		"hot keys":       {func(v *limit.View) { v.Hot, v.Gen = true, 1 }, func(v *limit.View) { v.Hot, v.Gen = true, 0 }},
		"floors":         {func(v *limit.View) { v.Floor.Cap = most }, func(v *limit.View) { v.Floor.Cap = most + 1 }},
		"shares":         {func(v *limit.View) { v.Hot, v.Gen, v.Share.Cap = true, 1, most }, func(v *limit.View) { v.Hot, v.Gen, v.Share.Cap = true, 1, -1 }},
		"waits":          {func(v *limit.View) { v.HeardWait = HeardTTL.Microseconds() }, func(v *limit.View) { v.HeardWait = -1 }},
		"changes":        {func(v *limit.View) { v.RuleSince = 1 }, func(v *limit.View) { v.RuleSince = -1 }},
		"buckets before": {func(v *limit.View) { v.RuleSince, v.Before.Cap = 1, most }, func(v *limit.View) { v.RuleSince, v.Before.Cap = 1, -1 }},
		"slow rates":     {func(v *limit.View) { v.RuleSince, v.Slow.Micro = 1, 0 }, func(v *limit.View) { v.RuleSince, v.Slow.Micro = 1, -1 }},
		"memories":       {func(v *limit.View) { v.Memory = &limit.Memory{Tokens: -most} }, func(v *limit.View) { v.Memory = &limit.Memory{Tokens: -most - 1} }},
		"memories' earlier use": {
			func(v *limit.View) { v.Memory = &limit.Memory{Earlier: []limit.DatedUse{{Used: most}}} },
			func(v *limit.View) { v.Memory = &limit.Memory{Earlier: []limit.DatedUse{{At: 1}}} },
		},
		"memories' use": {func(v *limit.View) { v.Memory = &limit.Memory{Used: most} }, func(v *limit.View) { v.Memory = &limit.Memory{Used: -1} }},
		"extras":        {func(v *limit.View) { v.Extra = most - v.Floor.Cap }, func(v *limit.View) { v.Extra = most - v.Floor.Cap + 1 }},
		"chunks":        {func(v *limit.View) { v.Chunk = limit.ChunkView{Want: most, Life: 1} }, func(v *limit.View) { v.Chunk = limit.ChunkView{Want: most + 1, Life: 1} }},
		"least chunks":  {func(v *limit.View) { v.Chunk = limit.ChunkView{Want: 1, Life: 1} }, func(v *limit.View) { v.Chunk = limit.ChunkView{Want: 1, Least: -1, Life: 1} }},
		"chunks' lives": {func(v *limit.View) { v.Chunk = limit.ChunkView{Want: 1, Life: limit.MaxChunkLife} },
			func(v *limit.View) { v.Chunk = limit.ChunkView{Want: 1, Life: limit.MaxChunkLife + 1} }},
		"chunks without a life": {func(v *limit.View) {}, func(v *limit.View) { v.Chunk = limit.ChunkView{Want: 1} }},
		"returns": {func(v *limit.View) { v.Chunk = limit.ChunkView{Was: 5, Back: 5, Until: 1} },
			func(v *limit.View) { v.Chunk = limit.ChunkView{Was: 5, Back: 6, Until: 1} }},
		"chunks kept and returned": {func(v *limit.View) { v.Chunk = limit.ChunkView{Was: 5, Keep: 5, Until: 1} },
			func(v *limit.View) { v.Chunk = limit.ChunkView{Was: 5, Keep: 1, Back: 1, Until: 1} }},
		"loans' ends": {func(v *limit.View) { v.Chunk = limit.ChunkView{Was: 1, Until: limit.MaxExact} },
			func(v *limit.View) { v.Chunk = limit.ChunkView{Was: 1, Until: 0} }},
	} {
		check := func(change func(*limit.View)) error {
			v := limit.View{Stamp: limit.Stamp(checkedEpoch), Floor: limit.Bucket{Cap: 10 * limit.Token}}
			change(&v)
			return CheckGroups(checkedEpoch, []Group{{Cost: 1, Limits: []KeyView{{Key: Key(v.Algorithm, 1, [16]byte{}), View: v}}}})
		}
		if err := check(change.passes); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := check(change.refused); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: beyond the border: %v", what, err)
		}
	}
}

// Slots that a caller holds have a name, a cost and time left, are no more than a record has room for, and are of a limit
// of slots.
func TestSlotsThatTheScriptsCannotCountAreRefused(t *testing.T) {
	check := func(a limit.Algorithm, held []limit.HeldSlot) error {
		v := limit.View{Algorithm: a, Window: 1, Stamp: limit.Stamp(checkedEpoch), Floor: limit.Bucket{Cap: 10 * limit.Token}, Held: held}
		return CheckGroups(checkedEpoch, []Group{{Cost: 1, Limits: []KeyView{{Key: Key(a, 1, [16]byte{}), View: v}}}})
	}
	most := limit.HeldSlot{Slot: limit.MaxExact, Cost: limit.MaxEntries * limit.Token, Lasts: limit.MaxExact}
	if err := check(limit.Concurrency, slices.Repeat([]limit.HeldSlot{most}, limit.MaxEntries)); err != nil {
		t.Error(err)
	}
	for _, held := range [][]limit.HeldSlot{
		slices.Repeat([]limit.HeldSlot{most}, limit.MaxEntries+1),
		{{Slot: 0, Cost: 1, Lasts: 1}}, {{Slot: 1, Cost: 0, Lasts: 1}}, {{Slot: 1, Cost: 1, Lasts: 0}},
		{{Slot: limit.MaxExact + 1, Cost: 1, Lasts: 1}}, {{Slot: 1, Cost: most.Cost + 1, Lasts: 1}}, {{Slot: 1, Cost: 1, Lasts: limit.MaxExact + 1}},
	} {
		if err := check(limit.Concurrency, held); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", held[:1], err)
		}
	}
	if err := check(limit.SlidingLog, []limit.HeldSlot{most}); !errors.Is(err, ErrInvalid) {
		t.Errorf("slots of a log: %v", err)
	}
}

// A group names at least one limit and at most MaxLimits, each of them once, by a name of its algorithm,
// with a cost, for the contents that the call names.
func TestGroupsThatAreNoGroupsAreRefused(t *testing.T) {
	of := func(limits int) Group {
		g := Group{Cost: limit.MaxExact}
		for rule := range uint32(limits) {
			g.Limits = append(g.Limits, KeyView{Key: Key(limit.TokenBucket, rule+1, [16]byte{}), View: limit.View{Stamp: limit.Stamp(checkedEpoch)}})
		}
		return g
	}
	for what, c := range map[string]struct {
		change func(*Group)
		passes bool
	}{
		"one limit":               {func(g *Group) {}, true},
		"as many as there may be": {func(g *Group) { *g = of(MaxLimits) }, true},
		"one more":                {func(g *Group) { *g = of(MaxLimits + 1) }, false},
		"none":                    {func(g *Group) { *g = of(0) }, false},
		"one limit twice":         {func(g *Group) { *g = of(2); g.Limits[1].Key = g.Limits[0].Key }, false},
		"no cost":                 {func(g *Group) { g.Cost = 0 }, false},
		"a cost of its own":       {func(g *Group) { g.Cost, g.Limits[0].View.Cost = 0, 1 }, true},
		"too large a cost":        {func(g *Group) { g.Cost++ }, false},
		"a cost below 0":          {func(g *Group) { g.Cost = -1 }, false},
		"other contents":          {func(g *Group) { g.Limits[0].View.Stamp++ }, false},
		"no name":                 {func(g *Group) { g.Limits[0].Key = "" }, false},
		"too long a name":         {func(g *Group) { g.Limits[0].Key += strings.Repeat("x", MaxKeyBytes) }, false},
		"another algorithm":       {func(g *Group) { g.Limits[0].View.Algorithm, g.Limits[0].View.Window = limit.FixedWindow, 1 }, false},
		"two leases":              {func(g *Group) { *g = of(2); g.Limits[1].View.Until++ }, false},
	} {
		g := of(1)
		c.change(&g)
		if err := CheckGroups(checkedEpoch, []Group{g}); (err == nil) != c.passes || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
