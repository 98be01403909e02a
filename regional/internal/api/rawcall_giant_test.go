package api

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"aliquot/internal/rpc"
	aliquotv1 "aliquot/proto/aliquot/v1"
	"aliquot/regional/internal/charge"
)

// TestGiantBatchTakesNoMemory: a message that is small enough, but full of requests, is refused
// without making objects of them.
func TestGiantBatchTakesNoMemory(t *testing.T) {
	const requests = 1 << 20 // in 2 MiB
	for _, kind := range []kind{batch, streamed} {
		for name, codec := range map[string]rawCodec{"proto": {protoCodec{}, &rawCalls{}, true}, "JSON": {rpc.JSON(), &rawCalls{}, false}} {
			message := strings.Repeat("\x0a\x00", requests) + "\x78\x01" // and something unusual
			if !codec.binary {
				message = `{"requests":[` + strings.Repeat("{},", requests-1) + `{}]}`
			}
			x := codec.pool.take(kind)
			data := []byte(message)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := codec.read(x, data)
			runtime.ReadMemStats(&after)
			if err != nil || !errors.Is(x.refused, charge.ErrInvalid) || !strings.Contains(x.refused.Error(), "send 1 to 1000") {
				t.Errorf("%s: %v, %v", name, err, x.refused)
			}
			if made := after.TotalAlloc - before.TotalAlloc; made > 8<<20 {
				t.Errorf("%s: %d MiB were made of %d", name, made>>20, len(message)>>20)
			}
		}
	}
}

// TestGiantRequestTakesNoMemory: of a request that is full of attributes no objects are made.
func TestGiantRequestTakesNoMemory(t *testing.T) {
	const attributes = 1 << 18 // in 3 MiB
	entries, fields := make([]byte, 0, attributes*12), []string(nil)
	for i := range attributes {
		entries = fmt.Appendf(entries, "\x0a\x0a\x0a\x05%05x\x12\x01v", i)
		fields = append(fields, fmt.Sprintf(`"%x":""`, i))
	}
	for name, c := range map[string]struct {
		codec   rawCodec
		message []byte
	}{
		"proto": {rawCodec{protoCodec{}, &rawCalls{}, true}, entries},
		"JSON":  {rawCodec{rpc.JSON(), &rawCalls{}, false}, []byte(`{"attributes":{` + strings.Join(fields, ",") + `}}`)},
	} {
		x := c.codec.pool.take(single)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.codec.read(x, c.message)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		why := x.refused
		if why == nil {
			_, why = validate(x.requests.All[0])
		}
		if !errors.Is(why, charge.ErrInvalid) || !strings.Contains(why.Error(), "64 attributes") {
			t.Errorf("%s: %v", name, why)
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > 8<<20 {
			t.Errorf("%s: %d MiB were made of %d", name, made>>20, len(c.message)>>20)
		}
	}
}

// TestRoomOfJSON: a message in JSON takes the room of its bytes, as others do.
func TestRoomOfJSON(t *testing.T) {
	r := newMemoryQuota(streamMemory, nil, nil)
	for name, codec := range map[string]rawCodec{"proto": {protoCodec{}, &rawCalls{}, true}, "JSON": {rpc.JSON(), &rawCalls{}, false}} {
		long := strings.Repeat("v", 1<<20)
		data, err := codec.Codec.Marshal(&aliquotv1.CheckStreamRequest{Requests: []*aliquotv1.StreamedCheck{ask1(1, long)}})
		if err != nil {
			t.Fatal(err)
		}
		var call streamCall
		if err := codec.Unmarshal(data, &call); err != nil {
			t.Fatal(err)
		}
		if got := r.size(call.rawCall); got < 1<<20 {
			t.Errorf("%s: a message of 1 MiB takes %d bytes", name, got)
		}
		x := rawCall{pool: codec.pool, came: call.came}
		x.done()
		if x.came != 0 {
			t.Errorf("%s: the next message begins with %d bytes", name, x.came)
		}
	}
}
