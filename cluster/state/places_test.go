package state

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	raftlogv1 "aliquot/proto/raftlog/v1"
)

func placeCmd(region string, token, by uint64) *raftlogv1.Command {
	return &raftlogv1.Command{Kind: &raftlogv1.Command_ChangePlace{ChangePlace: &raftlogv1.ChangePlace{Region: region, Token: token, TakenBy: by}}}
}

// TestPlaces: a place is kept under a token, given once to the incarnation that names the token, and dropped.
func TestPlaces(t *testing.T) {
	m := NewMachine()
	drive(t, m, bootstrapCmd("one"))
	for _, step := range []struct {
		what      string
		region    string
		token, by uint64
		want      []Place
	}{
		{"nothing to give", "us", 5, 1, nil},
		{"nothing to drop", "us", 0, 0, nil},
		{"kept", "us", 5, 0, []Place{{"us", 5, 0}}},
		{"kept in another region", "ap", 6, 0, []Place{{"ap", 6, 0}, {"us", 5, 0}}},
		{"the wrong token", "us", 6, 1, []Place{{"ap", 6, 0}, {"us", 5, 0}}},
		{"given", "us", 5, 1, []Place{{"ap", 6, 0}, {"us", 5, 1}}},
		{"given once", "us", 5, 2, []Place{{"ap", 6, 0}, {"us", 5, 1}}},
		{"kept again", "us", 7, 0, []Place{{"ap", 6, 0}, {"us", 7, 0}}},
		{"dropped", "us", 0, 0, []Place{{"ap", 6, 0}}},
	} {
		drive(t, m, placeCmd(step.region, step.token, step.by))
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
