package load

import (
	"math/bits"
	"math/rand"
	randv2 "math/rand/v2"
)

const (
	// drawnKeys is how many draws are made in advance and gone through again and again: a
	// draw of a Zipf distribution costs as much as a check of a batch. It is a power of two.
	drawnKeys = 1 << 20
	keySeed   = 1
)

// keys is whom the checks are for, in the order in which they are sent. A run's
// connections share what was drawn, each from a place of its own. Without anything drawn
// all keys are alike.
type keys struct {
	drawn  []uint32
	next   uint32
	among  uint64
	chance *randv2.PCG
}

// drawKeys draws a run's keys, the same ones in every run. The hot key is the one
// after all others. Keys that are all alike are drawn as they are sent, so that there may
// be more of them.
func drawKeys(c *Config) []uint32 {
	if c.Zipf == 0 && c.HotKey == 0 {
		return nil
	}
	out := make([]uint32, drawnKeys)
	chance := rand.New(rand.NewSource(keySeed))
	draw := func() uint32 { return uint32(chance.Intn(c.Keys)) }
	if c.Zipf > 0 {
		zipf := rand.NewZipf(chance, c.Zipf, 1, uint64(c.Keys-1))
		draw = func() uint32 { return uint32(zipf.Uint64()) }
	}
	for i := range out {
		if c.HotKey > 0 && chance.Float64()*100 < c.HotKey {
			out[i] = uint32(c.Keys)
			continue
		}
		out[i] = draw()
	}
	return out
}

// newKeys starts at a place that is chosen at random.
func (r *run) newKeys() keys {
	return keys{drawn: r.drawn, next: randv2.Uint32(), among: uint64(r.config.Keys), chance: randv2.NewPCG(randv2.Uint64(), keySeed)}
}

func (k *keys) take() uint32 {
	if k.drawn == nil {
		high, _ := bits.Mul64(k.chance.Uint64(), k.among)
		return uint32(high)
	}
	k.next++
	return k.drawn[k.next&(drawnKeys-1)]
}
