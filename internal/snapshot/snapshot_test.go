package snapshot

import (
	"errors"
	"slices"
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

// A file of many empty entries is refused before they take a hundred times as much memory.
func TestEmptyPartsAreRefused(t *testing.T) {
	for name, s := range map[string]*aliquotv1.Snapshot{
		"entries":  {ClusterId: "c", Entries: slices.Repeat([]*aliquotv1.Entry{{}}, MaxParts+1)},
		"regions":  {ClusterId: "c", Regions: slices.Repeat([]*aliquotv1.Region{{}}, MaxParts+1)},
		"rule ids": {ClusterId: "c", Entries: []*aliquotv1.Entry{{RuleIds: make([]string, MaxParts)}}},
	} {
		file, err := Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(file); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "too many parts") {
			t.Errorf("%s: %v", name, err)
		}
	}
	file, err := Encode(&aliquotv1.Snapshot{ClusterId: "c", Entries: slices.Repeat([]*aliquotv1.Entry{{Kind: "block", Name: "k"}}, 10_000)})
	if err == nil {
		_, err = Decode(file)
	}
	if err != nil {
		t.Errorf("as many entries as there may be: %v", err)
	}
}
