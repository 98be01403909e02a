package state

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"aliquot/internal/place"
	raftlogv1 "aliquot/proto/raftlog/v1"
)

func placeCmd(region string, token, helloOf uint64) *raftlogv1.Command {
	return &raftlogv1.Command{Kind: &raftlogv1.Command_ChangePlace{ChangePlace: &raftlogv1.ChangePlace{Region: region, Token: token, HelloOf: helloOf}}}
}

// TestPlaces: a region has one place at most, snapshots have it, and Hellos take it or end it.
func TestPlaces(t *testing.T) {
	in := func(region string, token, by uint64) RegionPlace {
		return RegionPlace{region, place.Place{Token: token, TakenBy: by}}
	}
	m := NewMachine()
	drive(t, m, bootstrapCmd("one"))
	for _, step := range []struct {
		what           string
		region         string
		token, helloOf uint64
		want           []RegionPlace
	}{
		{"a Hello without a place", "us", 5, 1, nil},
		{"kept", "us", 5, 0, []RegionPlace{in("us", 5, 0)}},
		{"kept in another region", "ap", 6, 0, []RegionPlace{in("ap", 6, 0), in("us", 5, 0)}},
		{"taken", "us", 5, 1, []RegionPlace{in("ap", 6, 0), in("us", 5, 1)}},
		{"ended by another daemon", "us", 0, 2, []RegionPlace{in("ap", 6, 0)}},
		{"kept again", "us", 7, 0, []RegionPlace{in("ap", 6, 0), in("us", 7, 0)}},
		{"kept by a later run", "us", 8, 0, []RegionPlace{in("ap", 6, 0), in("us", 8, 0)}},
	} {
		drive(t, m, placeCmd(step.region, step.token, step.helloOf))
		if got := m.Copy().Places; !slices.Equal(got, step.want) {
			t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
		}
		if back, err := ReadSnapshot(bytes.NewReader(bytesOf(t, m))); err != nil || !slices.Equal(back.Places, step.want) {
			t.Errorf("%s: a snapshot has %+v (%v), want %+v", step.what, back.Places, err, step.want)
		}
	}
	if err, _ := drive(t, m, placeCmd("nowhere", 1, 0)).(error); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a place in an undeclared region: %v", err)
	}
}
