package lua

import (
	"strconv"
	"strings"

	"aliquot/internal/hashslot"
)

// Slots is how many hash slots a Redis Cluster has. A script can reach the keys of one slot.
const Slots = hashslot.Count

// SlotOf returns the slot of a key in a Redis Cluster: the slot of its hash tag, if it has one.
func SlotOf(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	return hashslot.Of(key)
}

// SlotKeys returns one key for each slot of a Redis Cluster: prefix and, as a hash tag, the
// smallest number whose slot it is.
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
