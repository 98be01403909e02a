package msgpack

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// message has a value of each kind.
type message struct {
	Small, Large   int64
	Unsigned       uint64
	Float          float64
	Text, LongText string
	Bytes          []byte
	List           []message
	Map            map[string]int
	None           *int
	Yes            bool
	At             time.Time
}

func encoded(tb testing.TB, v any, h *codec.MsgpackHandle) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := codec.NewEncoder(&b, h).Encode(v); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func handles() []*codec.MsgpackHandle {
	old, plain := &codec.MsgpackHandle{}, &codec.MsgpackHandle{}
	old.TimeNotBuiltin, plain.WriteExt = true, true
	return []*codec.MsgpackHandle{{}, old, plain}
}

func messages() []any {
	m := message{
		Small: -3, Large: -1 << 60, Unsigned: 1 << 63, Float: 1.5, Text: "text", LongText: strings.Repeat("x", 70_000), Bytes: make([]byte, 300),
		Map: map[string]int{"a": 1, "b": 1 << 20}, Yes: true, At: time.Unix(1, 2),
	}
	m.List = []message{m, {}, m}
	return []any{m, 0, "", "text", nil, []int{}, make([]int, 40_000), map[string]string{}}
}

// TestScannerFindsTheEnd: whatever the encoder writes is found whole, however it is cut, and what follows is left.
func TestScannerFindsTheEnd(t *testing.T) {
	for _, h := range handles() {
		for i, m := range messages() {
			data := encoded(t, m, h)
			for _, piece := range []int{1, 7, len(data) + 1} {
				var s Scanner
				for range 2 { // two values, one after the other
					read, whole := 0, false
					for sent := append(bytes.Clone(data), 0xc1); !whole; {
						n, is, err := s.Scan(sent[read:min(len(sent), read+piece)])
						if err != nil || n == 0 && !is {
							t.Fatalf("message %d by %d bytes: after %d of %d: %v", i, piece, read, len(data), err)
						}
						read, whole = read+n, is
					}
					if read != len(data) {
						t.Errorf("message %d by %d bytes: %d bytes are read of %d", i, piece, read, len(data))
					}
				}
			}
		}
	}
}

// announced are values that announce more than they have, and that the decoder makes room for.
var announced = map[string]string{
	"an extension of 4 GiB":       "\xc9\xff\xff\xff\xff\xff",
	"an extension of 4 GiB, deep": "\x81\xa1x\x91\xc9\xff\xff\xff\xff\xff",
	"an extension of 64 KiB":      "\xc8\xff\xff\xff",
	"an extension of 255 bytes":   "\xc7\xff\xff",
	"a text of 4 GiB":             "\xdb\xff\xff\xff\xff",
	"a binary of 9 MiB":           "\xc6\x00\x90\x00\x00",
	"a list of 2^32":              "\xdd\xff\xff\xff\xff",
	"a map of 2^32":               "\xdf\xff\xff\xff\xff",
	"lists in each other":         strings.Repeat("\x91", 100),
	"lists of many lists":         "\xdd\x00\x00\xff\xff" + strings.Repeat("\x91\xc0", 1<<16),
	"a byte that is no kind":      "\xc1",
}

func TestAnnouncedIsRefused(t *testing.T) {
	for name, data := range announced {
		if err := Check([]byte(data)); !errors.Is(err, ErrBeyond) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, cut := range []string{"", "\x81", "\xa5ab", "\xc9\x00", "\xd8"} {
		if err := Check([]byte(cut)); err != nil {
			t.Errorf("%q, which is cut: %v", cut, err)
		}
	}
}

// FuzzScanner: what the scanner lets pass, the decoder reads within bounded memory; and if the decoder reads it, both
// agree where it ends. (The decoder reads a list into a map of Go's wrongly, which no message has.)
func FuzzScanner(f *testing.F) {
	for _, m := range messages() {
		f.Add(encoded(f, m, handles()[0]))
	}
	for _, data := range announced {
		f.Add([]byte(data))
	}
	f.Add(encoded(f, &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ID: []byte("a/1"), Addr: []byte("h:1")}, Entries: []*raft.Log{{Index: 1, Data: []byte("x"), AppendedAt: time.Unix(1, 2)}, nil},
	}, handles()[1]))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Scanner
		n, whole, err := s.Scan(data)
		if err != nil {
			return
		}
		for _, into := range []any{
			new(raft.AppendEntriesRequest), new(raft.RequestVoteRequest), new(raft.RequestPreVoteRequest), new(raft.InstallSnapshotRequest),
			new(raft.TimeoutNowRequest), new(raft.AppendEntriesResponse), new(raft.RequestVoteResponse), new(raft.Configuration), new(string),
		} {
			in := bytes.NewReader(data)
			if codec.NewDecoder(in, &codec.MsgpackHandle{}).Decode(into) != nil {
				continue
			}
			if read := len(data) - in.Len(); !whole || read != n {
				t.Errorf("%v reads %d bytes, the scanner %d, whole %v", reflect.TypeOf(into), read, n, whole)
			}
		}
	})
}
