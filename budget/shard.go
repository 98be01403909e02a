package budget

import (
	"encoding/binary"
	"fmt"
)

// Shards is the number of virtual shards of a ledger, for good: a key's shard never
// changes, only who holds it. A ledger that is split holds a range of them and is
// named after its first one; the one there is today holds them all, and is shard 0.
const Shards = 1024

// Shard is the virtual shard of a key, 0 to Shards-1: the upper bits of its hash, so a
// range of shards is a range of hashes, under every rule.
func (k KeyID) Shard() uint32 {
	return uint32(binary.BigEndian.Uint16(k.Hash[:])) / (1 << 16 / Shards)
}

// ErrWrongShard refuses a message that is about another ledger.
var ErrWrongShard = fmt.Errorf("%w: this leader does not hold that shard of the ledger", ErrMalformed)

// checkShard refuses what is about another ledger than the leader's.
func (l *Leader) checkShard(shard uint32) error {
	if shard == l.ledger.Shard {
		return nil
	}
	return fmt.Errorf("%w: the message is for shard %d, and shard %d is led here", ErrWrongShard, shard, l.ledger.Shard)
}
