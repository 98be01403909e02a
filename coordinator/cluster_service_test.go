package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aliquot/cluster"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

func (r *running) remove(t *testing.T, node string) ([]*aliquotv1.Member, error) {
	t.Helper()
	res, err := r.cluster.RemoveMember(t.Context(), &aliquotv1.RemoveMemberRequest{NodeId: node})
	return res.GetMembers(), err
}

func refused(t *testing.T, what string, err error, code connect.Code, parts ...string) {
	t.Helper()
	if connect.CodeOf(err) != code {
		t.Errorf("%s: %v, want %v", what, err, code)
	}
	for _, part := range parts {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q is not in: %v", what, part, err)
		}
	}
}

// TestRemoveMember: any coordinator takes the command, the leader carries it out;
// the daemon that was removed ends and says why.
func TestRemoveMember(t *testing.T) {
	t.Parallel()
	leader, followers := split(t, startCluster(t, 3))
	asked, gone := followers[0], followers[1]
	_, err := asked.remove(t, "c9")
	refused(t, "a stranger", err, connect.CodeNotFound, `"c9"`, "c1, c2, c3")
	_, err = asked.remove(t, "")
	refused(t, "nobody", err, connect.CodeInvalidArgument)
	_, err = asked.remove(t, leader.cfg.NodeID)
	refused(t, "the leader", err, connect.CodeFailedPrecondition, "stop its process")
	eventually(t, func() string { // the third one may still be finding out that it is a voter
		if !identityOf(t, gone.cfg.DataDir).Member {
			return "it has not found itself a voter"
		}
		return ""
	})
	left, err := asked.remove(t, gone.cfg.NodeID)
	if err != nil || len(left) != 2 {
		t.Fatalf("remove %s: %v, %v", gone.cfg.NodeID, left, err)
	}
	select {
	case err := <-gone.done:
		gone.done = nil
		if !errors.Is(err, cluster.ErrRemoved) {
			t.Errorf("the removed daemon ended with: %v", err)
		}
	case <-time.After(patience):
		t.Error("the removed daemon runs on")
	}
	asked.applyRules(t, someRules)

	// Of the two that are left one stops: no leader, nobody can be removed.
	leader.stop(t)
	eventually(t, func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := asked.cluster.RemoveMember(ctx, &aliquotv1.RemoveMemberRequest{NodeId: leader.cfg.NodeID})
		if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "start them again") {
			return "remove without a majority: " + errorText(err)
		}
		return ""
	})
}
