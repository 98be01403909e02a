package place

import "testing"

func TestPlace(t *testing.T) {
	kept := Place{Token: 7}
	for _, is := range []struct {
		what               string
		hellos             [][2]uint64 // token and incarnation
		token, incarnation uint64
		held               bool
	}{
		{"the daemon comes back", [][2]uint64{{7, 3}}, 7, 3, true},
		{"it asks again", [][2]uint64{{7, 3}, {7, 3}}, 7, 3, true},
		{"it has not come yet", nil, 7, 3, false},
		{"another one was first", [][2]uint64{{0, 5}, {7, 3}}, 7, 3, false},
		{"another one came after it", [][2]uint64{{7, 3}, {0, 5}}, 7, 3, false},
		{"another one had another place", [][2]uint64{{8, 5}, {7, 3}}, 7, 3, false},
		{"a second run", [][2]uint64{{7, 3}, {7, 4}}, 7, 4, false},
		{"the first run after the second", [][2]uint64{{7, 3}, {7, 4}, {7, 3}}, 7, 3, false},
		{"no token", [][2]uint64{{7, 3}}, 0, 3, false},
	} {
		p := kept
		for _, h := range is.hellos {
			p = p.AfterHello(h[0], h[1])
		}
		if p.HeldBy(is.token, is.incarnation) != is.held {
			t.Errorf("%s: %+v", is.what, p)
		}
	}
	if none := (Place{}).AfterHello(0, 3); none.HeldBy(0, 3) || none != (Place{}) {
		t.Errorf("no place becomes %+v", none)
	}
}
