package rules

import (
	"maps"
	"math"
	"testing"
)

func TestAssign(t *testing.T) {
	set := func(ids string) *Set {
		return MustParse(t, "defaults: {params: {limit: 1, window: 1}}\nrules: ["+ids+"]")
	}
	first := set("{id: b}, {id: a}")
	numbers, next := Assign(nil, nil, 7, first)
	check(t, "new rules, in the order of the file", numbers, map[string]uint32{"b": 7, "a": 8}, next, 9)

	second := set("{id: c}, {id: a, params: {limit: 9}}")
	numbers, next = Assign(numbers, first, next, second)
	check(t, "a changed limit keeps its number, a deleted rule goes", numbers, map[string]uint32{"a": 8, "c": 9}, next, 10)

	numbers, next = Assign(numbers, second, next, first)
	check(t, "a rule made again is another one", numbers, map[string]uint32{"b": 10, "a": 8}, next, 11)

	again, same := Assign(numbers, nil, next, first)
	check(t, "no set before: nothing changed", again, map[string]uint32{"b": 10, "a": 8}, same, 11)

	stale := map[string]uint32{"a": 8, "b": 10, "c": 9}
	numbers, next = Assign(stale, first, next, second)
	check(t, "a number left over from a rule that was gone is not used", numbers, map[string]uint32{"a": 8, "c": 11}, next, 12)

	changed := set("{id: a}")
	changed.rules[0].Algorithm = "another"
	numbers, next = Assign(numbers, second, next, changed)
	check(t, "a changed algorithm", numbers, map[string]uint32{"a": 12}, next, 13)

	moved := set("{id: a, placement: home}")
	moved.rules[0].Algorithm = "another"
	numbers, next = Assign(numbers, changed, next, moved)
	check(t, "a changed placement", numbers, map[string]uint32{"a": 13}, next, 14)

	counting := set("{id: a, placement: home, unit: tokens_in}")
	counting.rules[0].Algorithm = "another"
	numbers, next = Assign(numbers, moved, next, counting)
	check(t, "a changed unit", numbers, map[string]uint32{"a": 14}, next, 15)

	numbers, next = Assign(numbers, counting, next, &Set{})
	check(t, "no rules", numbers, map[string]uint32{}, next, 15)
}

func check(t *testing.T, what string, got, want map[string]uint32, next, wantNext uint32) {
	t.Helper()
	if !maps.Equal(got, want) || next != wantNext {
		t.Errorf("%s: %v next %d, want %v next %d", what, got, next, want, wantNext)
	}
}

func TestAssignNeverWraps(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("numbers began again at zero")
		}
	}()
	Assign(nil, nil, math.MaxUint32, MustParse(t, "rules: [{id: a, params: {limit: 1, window: 1}}]"))
}
