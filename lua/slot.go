package lua

import (
	"strconv"
	"strings"

	"aliquot/internal/hashslot"
)

// Slots is how many hash slots a Redis Cluster has. A script reaches the keys of one.
const Slots = hashslot.Count

// SlotOf is the slot of a key in a Redis Cluster: that of its hash tag, if it has one.
func SlotOf(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	return hashslot.Of(key)
}

// SlotKeys are keys that stand one in each slot of a Redis Cluster: prefix and, as a hash
// tag, the smallest number that is of the slot.
func SlotKeys(prefix string) *[Slots]string {
	var keys [Slots]string
	for number, missing := 0, Slots; missing > 0; number++ {
		key := prefix + ":{" + strconv.Itoa(number) + "}"
		if slot := SlotOf(key); keys[slot] == "" {
			keys[slot] = key
			missing--
		}
	}
	return &keys
}
