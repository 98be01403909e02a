package check

import "testing"

// States that are one by their canonical form do the same: whatever happens next, they
// come to the same state again. Without this the search would leave out what it has
// not seen.
func TestStatesOfOneFormBehaveAlike(t *testing.T) {
	const states = statesDeep / 200
	pairs := 0
	for _, sc := range Scenarios() {
		sc.prepare()
		root, failed := sc.root()
		if failed != "" {
			t.Fatal(failed)
		}
		var x writer
		first := map[uint64]*world{x.key(root): root}
		for level := []*world{root}; len(level) > 0 && len(first) < states; {
			var next []*world
			for _, w := range level {
				for _, e := range w.Events(nil) {
					c := w.Fork()
					if broken := c.Try(e); broken != "" {
						t.Fatalf("%s: %s", sc.Name, broken)
					}
					k := x.key(c)
					if twin := first[k]; twin == nil {
						first[k] = c
						next = append(next, c)
					} else if sameCarry(twin, c) {
						pairs++
						alike(t, &x, twin, c)
					}
				}
			}
			level = next
		}
	}
	t.Logf("%d pairs", pairs)
	if pairs < states {
		t.Errorf("only %d pairs", pairs)
	}
}

// sameCarry: not even the fractions of a micro-token differ, which the form leaves out.
func sameCarry(a, b *world) bool {
	for i := range a.sc.Regions {
		if a.sites[i].store.Get(a.now).Carry != b.sites[i].store.Get(b.now).Carry {
			return false
		}
	}
	return true
}

// alike compares what two worlds of one form do next, and what becomes of them when
// nothing fails.
func alike(t *testing.T, x *writer, a, b *world) {
	t.Helper()
	events := a.Events(nil)
	for i, e := range b.Events(nil) {
		if i >= len(events) || events[i] != e {
			t.Fatalf("%s: the events of two worlds of one form differ", a.sc.Name)
		}
		c, d := a.Fork(), b.Fork()
		c.Try(e)
		d.Try(e)
		if x.key(c) != x.key(d) {
			t.Fatalf("%s: after %q two worlds of one form differ%s%s", a.sc.Name, a.words(e), c.summary(), d.summary())
		}
	}
	c, d := a.Fork(), b.Fork()
	for q := range 6 {
		c.quietly(c.want, 1)
		d.quietly(d.want, 1)
		if x.key(c) != x.key(d) {
			t.Fatalf("%s: after %d quanta two worlds of one form differ%s%s", a.sc.Name, q+1, c.summary(), d.summary())
		}
	}
}
