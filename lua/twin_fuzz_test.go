package lua

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"aliquot/limit"
)

func FuzzTokenBucket(f *testing.F)    { fuzzTwin(f, limit.TokenBucket) }
func FuzzLeakyBucket(f *testing.F)    { fuzzTwin(f, limit.LeakyBucket) }
func FuzzFixedWindow(f *testing.F)    { fuzzTwin(f, limit.FixedWindow) }
func FuzzSlidingCounter(f *testing.F) { fuzzTwin(f, limit.SlidingCounter) }
func FuzzSlidingLog(f *testing.F)     { fuzzTwin(f, limit.SlidingLog) }
func FuzzConcurrency(f *testing.F)    { fuzzTwin(f, limit.Concurrency) }

// fuzzTwin is the twin test for a few keys of one algorithm, drawn from the fuzzer's bytes:
// coverage of package limit leads to the records and views that matter. Run it with
// -fuzzminimizetime 1x: how far an input gets depends on the clock too, so to make it smaller
// takes all the time there is.
func fuzzTwin(f *testing.F, a limit.Algorithm) {
	for seed := range uint64(8) {
		data := make([]byte, 512)
		rng := rand.New(rand.NewPCG(seed, uint64(a)))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	w := newTwins(f, 1)
	w.keys = w.keys[:0]
	for i := range 3 {
		w.keys = append(w.keys, Key(a, 9, [16]byte{15: byte(i)}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		source := &drawn{data: data, rest: rand.NewPCG(1, uint64(len(data)))}
		w.TB, w.Rand, w.views = t, rand.New(source), nil
		if err := w.client.Del(t.Context(), append(w.keys, HeardKey)...).Err(); err != nil {
			t.Fatal(err)
		}
		for range mostSteps {
			if w.step(); len(source.data) == 0 {
				return
			}
		}
	})
}

// mostSteps bounds the calls that one input makes: a few are enough to meet in a record.
const mostSteps = 6

// drawn are random numbers out of a fuzzer's bytes, and others once these are used up: the
// same number over and over would never do for some draws.
type drawn struct {
	data []byte
	rest rand.Source
}

func (d *drawn) Uint64() uint64 {
	if len(d.data) < 8 {
		d.data = nil
		return d.rest.Uint64()
	}
	n := binary.LittleEndian.Uint64(d.data)
	d.data = d.data[8:]
	return n
}
