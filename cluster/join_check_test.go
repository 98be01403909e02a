package cluster

import (
	"errors"
	"strings"
	"testing"

	"aliquot/cluster/state"
)

// TestRefusedJoins: the error names the field that is wrong, and its form.
func TestRefusedJoins(t *testing.T) {
	for _, c := range []struct{ node, instance, address, want string }{
		{"a/b", "00000001", "h:7401", `node_id is "a/b"; it has 1 to 64 of A-Z a-z 0-9 . _ -`},
		{"c2", "", "h:7401", `instance_id is ""; it has 8 of 0-9 a-f`},
		{"c2", "0000000G", "h:7401", `instance_id is "0000000G"; it has 8 of 0-9 a-f`},
		{"c2", "00000001", "h", `raft address "h" is not host:port`},
	} {
		if err := checkJoin(c.node, c.instance, c.address); !errors.Is(err, state.ErrInvalidArgument) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := checkJoin("c2", "00000001", "h:7401"); err != nil {
		t.Error(err)
	}
}
