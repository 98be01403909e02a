package budget

import (
	"encoding/binary"
	"fmt"
)

// Shards is the fixed number of virtual shards of a ledger. A key's shard never changes, only which
// ledger holds it. A ledger that is split holds a range of shards and is named after the first one.
// Today there is one ledger. It holds all shards and is shard 0.
const Shards = 1024

// Shard returns the virtual shard of a key, 0 to Shards-1. It is the upper bits of the key's hash,
// so a range of shards is a range of hashes, under every rule.
func (k KeyID) Shard() uint32 {
	return uint32(binary.BigEndian.Uint16(k.Hash[:])) / (1 << 16 / Shards)
}

// ErrWrongShard is the error for a message about another ledger.
var ErrWrongShard = fmt.Errorf("%w: this leader does not hold that shard of the ledger", ErrMalformed)

// checkShard returns an error for a message about another ledger than the leader's.
func (l *Leader) checkShard(shard uint32) error {
	if shard == l.ledger.Shard {
		return nil
	}
	return fmt.Errorf("%w: the message is for shard %d, and shard %d is led here", ErrWrongShard, shard, l.ledger.Shard)
}
