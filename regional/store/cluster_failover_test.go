package store

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"aliquot/limit"
	"aliquot/lua"
	"aliquot/lua/redistest"
)

// TestClusterFailsOverAndBack: a primary fails over to its replica and takes over again,
// without the replica's latest writes. It is the process that it was, so the connections to
// it from before are good, and nobody asks it who it is. What was spent on the replica does
// not come back.
func TestClusterFailsOverAndBack(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	replica, client, id := servers.Replica(t, 1)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	key := keyOn(servers, 1, 1)
	spend := func() (allowed bool, err error) {
		got, _, err := s.Take(t.Context(), epoch, one(key, 1, coldView(epoch, bucket(100, 0))))
		if err != nil {
			return false, err
		}
		return got[0].Allowed, got[0].Err
	}
	if ok, err := spend(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := client.Do(t.Context(), "cluster", "failover").Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "the replica has the slots", func() bool { return servers.Owns(t, id) })
	redistest.Until(t, "the store finds other contents", func() bool {
		_, err := spend()
		return errors.As(err, new(*EpochError))
	})
	before := epoch
	epoch = learnCluster(t, s)
	key = keyOn(servers, 1, 2) // a new client's
	if ok, err := spend(); !ok || err != nil || epoch == before {
		t.Fatal(ok, err, epoch)
	}
	primary := servers.Client(1)
	redistest.InStep(t, primary, client)
	// From here on the primary of before hears of no more writes.
	if err := client.ConfigSet(t.Context(), "requirepass", "x").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), "client", "kill", "type", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "it is cut off", func() bool {
		info, err := primary.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:down")
	})
	spent := 0
	for range 60 {
		if ok, err := spend(); ok && err == nil {
			spent++
		}
	}
	if spent < 30 {
		t.Fatalf("%d were spent on the replica", spent)
	}
	replica.Kill()
	if err := primary.Do(t.Context(), "cluster", "failover", "takeover").Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "the primary has the slots again", func() bool { return servers.Owns(t, servers.ID(1)) })
	redistest.Until(t, "the store finds other contents once more", func() bool {
		ok, err := spend()
		if ok && err == nil {
			t.Fatalf("it spends by the epoch %s, under which %d tokens were spent elsewhere", epoch, spent)
		}
		return errors.As(err, new(*EpochError))
	})
	before = epoch
	epoch = learnCluster(t, s)
	var left limit.Tokens
	got, _, err := s.Take(t.Context(), epoch, one(key, 1, coldView(epoch, bucket(100, 0))))
	if err == nil {
		left = got[0].Limits[0].Tokens
	}
	if err != nil || epoch == before || left > 0 {
		t.Errorf("by the epoch %s after %s: %d left, %v", epoch, before, left, err)
	}
}

// TestALostNodeThatWasReplacedIsReportedNoMore: a replica takes the place of a node that was killed. The node has no
// slots any more, so nothing is degraded for it, although it does not answer.
func TestALostNodeThatWasReplacedIsReportedNoMore(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	_, client, _ := servers.Replica(t, 1)
	var open atomic.Int32
	s := openCluster(t, servers, func(c *RedisConfig) {
		c.OnCircuit = func(_ string, is bool, _ error) {
			if is {
				open.Add(1)
			} else {
				open.Add(-1)
			}
		}
	})
	epoch := learnCluster(t, s)
	key := keyOn(servers, 1, 1)
	servers.Nodes[1].Kill()
	redistest.Until(t, "the node is reported", func() bool {
		_, _, _ = s.Take(t.Context(), epoch, one(key, 1, coldView(epoch, bucket(100, 0))))
		return open.Load() == 1
	})
	redistest.Until(t, "the replica has the slots", func() bool {
		// It is refused while the replica has not noticed that its primary is gone.
		_ = client.Do(t.Context(), "cluster", "failover", "takeover").Err()
		role, err := client.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(role, "role:master")
	})
	redistest.Until(t, "the node is reported no more", func() bool { return open.Load() == 0 })
	if lost := s.Unreached(); lost != nil {
		t.Errorf("slots of nobody are unreached: %v", lost)
	}
}

// TestASlotOnItsWayToANewServer is decided there once the daemon has learned what the server is, and the other
// slots are too. What was moved is lost if the server restarts with older contents, although it has no slot.
func TestASlotOnItsWayToANewServer(t *testing.T) {
	servers := redistest.StartCluster(t, 3)
	s := openCluster(t, servers)
	epoch := learnCluster(t, s)
	moves, stays := keyOn(servers, 0, 1), keyOn(servers, 1, 2)
	take := func(key string) error {
		got, _, err := s.Take(t.Context(), epoch, one(key, 1, coldView(epoch, bucket(100, 0))))
		if err == nil {
			err = got[0].Err
		}
		return err
	}
	learn := func(why string) {
		t.Helper()
		before := epoch
		if epoch = learnCluster(t, s); epoch == before {
			t.Errorf("the contents are those of before: %s", why)
		}
		for _, key := range []string{moves, stays, moves} {
			if err := take(key); err != nil {
				t.Errorf("after %s: %v", why, err)
			}
		}
		if again := learnCluster(t, s); again != epoch {
			t.Errorf("the contents changed again after %s", why)
		}
	}
	if err := errors.Join(take(moves), take(stays)); err != nil {
		t.Fatal(err)
	}
	to := servers.Join(t)
	servers.Move(t, lua.SlotOf(moves), 0, to, func() {
		if err := take(moves); !errors.As(err, new(*EpochError)) {
			t.Errorf("on a server that nobody asked what it is: %v", err)
		}
		learn("a slot is on its way to a new server")
		if _, _, known := s.nodes.at(servers.Client(to).Options().Addr).clock.bounds(); !known {
			t.Error("the new server decides, and its clock is not known")
		}
		if err := servers.Client(to).Save(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := take(moves); err != nil {
			t.Fatal(err)
		}
		servers.Nodes[to].Kill()
		servers.Nodes[to].Run(t)
		redistest.Until(t, "it serves again", func() bool {
			info, err := servers.Client(to).ClusterInfo(t.Context()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok")
		})
		redistest.Until(t, "the store finds other contents", func() bool { return errors.As(take(moves), new(*EpochError)) })
		learn("the server restarted with older contents")
	})
	if err := take(moves); err != nil {
		t.Errorf("once the slot has moved: %v", err)
	}
	learn("the new server has a slot")
}
