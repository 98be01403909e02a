package lua

import (
	"strconv"
	"strings"
)

// Slots is how many hash slots a Redis Cluster has. A script reaches the keys of one.
const Slots = 16384

// SlotOf is the slot of a key in a Redis Cluster: that of its hash tag, if it has one.
func SlotOf(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	return int(crc16(key) % Slots)
}

// crc16 is CRC-16/XMODEM, by which a Redis Cluster names slots.
func crc16(text string) uint16 {
	const polynomial = 0x1021
	var crc uint16
	for i := range len(text) {
		crc ^= uint16(text[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ polynomial
			} else {
				crc <<= 1
			}
		}
	}
	return crc
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
