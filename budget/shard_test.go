package budget

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"testing"
	"time"
)

func TestShardIsTheUpperBitsOfTheHash(t *testing.T) {
	for shard := range uint32(Shards) {
		var first, last KeyID
		binary.BigEndian.PutUint16(first.Hash[:], uint16(shard<<6))
		binary.BigEndian.PutUint16(last.Hash[:], uint16(shard<<6|63))
		last.Rule = 7
		for i := 2; i < len(last.Hash); i++ {
			last.Hash[i] = 255
		}
		if first.Shard() != shard || last.Shard() != shard {
			t.Fatalf("the hashes %x to %x are of the shards %d and %d, want %d", first.Hash, last.Hash, first.Shard(), last.Shard(), shard)
		}
	}
}

// A group that holds 1/64 of the shards holds 1/64 of the keys, within 5 %.
func TestShardsAreEvenlyFilled(t *testing.T) {
	const keys, groups = 1 << 20, 64
	var filled [Shards]int
	for i := range uint64(keys) {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, i))
		filled[KeyID{Rule: uint32(i), Hash: [16]byte(sum[:])}.Shard()]++
	}
	for g := range groups {
		n := 0
		for _, k := range filled[g*Shards/groups : (g+1)*Shards/groups] {
			n += k
		}
		if n < keys/groups*95/100 || n > keys/groups*105/100 {
			t.Errorf("group %d of %d holds %d of %d keys", g, groups, n, keys)
		}
	}
}

func TestMessagesForAnotherShardAreRefused(t *testing.T) {
	w := started(t, 2)
	refused := func(what string, out []LeaderEffect) {
		t.Helper()
		if r, ok := out[len(out)-1].(Refuse); !ok || !errors.Is(r.Err, ErrWrongShard) {
			t.Errorf("%s for shard 512 got %#v", what, out)
		}
	}
	r := &w.leader.regions[0]
	refused("a Hello", w.leader.Step(HelloReceived{Hello{Shard: 512, Nonce: 99}}, w.now))
	refused("a Report", w.leader.Step(ReportReceived{Report{
		Shard: 512, Epoch: w.leader.epoch, Session: r.session, Seq: r.seq + 1, Ack: r.seq,
	}}, w.now))
	if !r.open {
		t.Error("a message about another ledger closed the session")
	}
	if err := w.ledger.Apply(Plan{Shard: 512, Epoch: w.ledger.Epoch}); !errors.Is(err, ErrBadPlan) {
		t.Errorf("a plan for shard 512: %v", err)
	}
	w.run(time.Second)
	if !w.allLive() {
		t.Error("the regions did not live through it")
	}
}
