package hashslot

import (
	"bytes"
	"encoding/base64"
	"testing"
)

// The values are those that CLUSTER KEYSLOT of a Redis gives.
func TestSlots(t *testing.T) {
	for tag, want := range map[string]int{"": 0, "a": 15495, "foo": 12182, "123456789": 12739, "user1000": 3443} {
		if got := Of(tag); got != want {
			t.Errorf("%q is in slot %d, want %d", tag, got, want)
		}
	}
}

func TestAHashIsItsTag(t *testing.T) {
	for i := range byte(200) {
		hash := [16]byte{0: i, 7: i * 31, 15: 255 - i}
		if got, want := OfHash(hash), Of(base64.RawURLEncoding.EncodeToString(hash[:])); got != want {
			t.Errorf("%x: %d, want %d", hash, got, want)
		}
	}
}

func TestSetGoesThroughAMessage(t *testing.T) {
	s := &Set{}
	in := []int{0, 1, 63, 64, 5461, Count - 1}
	for _, slot := range in {
		s.Add(slot)
	}
	back, err := FromBytes(s.Bytes())
	if err != nil || !back.Same(s) || back == s {
		t.Fatalf("%v, %v", back, err)
	}
	held := 0
	for slot := range Count {
		if back.Has(slot) {
			held++
		}
	}
	for _, slot := range in {
		if !back.Has(slot) {
			t.Errorf("slot %d is lost", slot)
		}
	}
	if held != len(in) {
		t.Errorf("%d slots, want %d", held, len(in))
	}
}

func TestEmptySets(t *testing.T) {
	var none *Set
	if none.Has(7) || none.Bytes() != nil || !none.Same(&Set{}) || !(&Set{}).Same(none) {
		t.Error("nil is not the empty set")
	}
	for _, in := range [][]byte{nil, {}, make([]byte, setBytes)} {
		if s, err := FromBytes(in); s != nil || err != nil {
			t.Errorf("%d zero bytes: %v, %v", len(in), s, err)
		}
	}
	for _, n := range []int{1, setBytes - 1, setBytes + 1} {
		if s, err := FromBytes(bytes.Repeat([]byte{1}, n)); s != nil || err == nil {
			t.Errorf("%d bytes were taken for a set", n)
		}
	}
}
