package snapshot

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	aliquotv1 "aliquot/proto/aliquot/v1"
)

func TestRoundTrip(t *testing.T) {
	want := &aliquotv1.Snapshot{ClusterId: "c", RulesYaml: "rules: []", Entries: []*aliquotv1.Entry{{Kind: "block", Name: "k"}}}
	file, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(file)
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// No change of one byte, no missing and no further byte passes.
func TestDamageIsFound(t *testing.T) {
	file, err := Encode(&aliquotv1.Snapshot{ClusterId: "c", RulesYaml: "rules: []"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range file {
		bad := []byte(string(file))
		bad[i] ^= 1
		if _, err := Decode(bad); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := Decode(file[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	if _, err := Decode(append(file, 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte more: %v", err)
	}
	if file, _ = Encode(&aliquotv1.Snapshot{}); file != nil {
		if _, err := Decode(file); !errors.Is(err, ErrDamaged) {
			t.Errorf("without a cluster: %v", err)
		}
	}
	if _, err := Encode(&aliquotv1.Snapshot{RulesYaml: strings.Repeat("x", MaxBytes)}); err == nil {
		t.Error("a file above the largest size was made")
	}
}
