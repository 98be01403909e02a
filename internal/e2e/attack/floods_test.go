package attack

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// flooding is how many connections send each flood at once.
const flooding = 2

// floods are frames over HTTP/2 that cost their sender less than their receiver. head are the headers of a request.
var floods = []struct {
	name  string
	reads bool // the sender reads what is answered
	send  func(f *http2.Framer, head []byte) error
}{
	{"streams, each reset at once", true, func(f *http2.Framer, head []byte) error {
		return times(scaled(20_000, 200_000), func(i int) error {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head, EndHeaders: true})
			return f.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
		})
	}},
	{"streams that the receiver has to reset", true, func(f *http2.Framer, head []byte) error {
		return times(scaled(20_000, 200_000), func(i int) error {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head, EndHeaders: true})
			return f.WriteRawFrame(http2.FrameWindowUpdate, 0, uint32(2*i+1), make([]byte, 4)) // by 0, which is an error
		})
	}},
	{"CONTINUATION", true, func(f *http2.Framer, head []byte) error {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head})
		return times(scaled(20_000, 200_000), func(int) error {
			return f.WriteContinuation(1, false, bytes.Repeat([]byte("\x00\x01a\x01b"), 100))
		})
	}},
	{"one header that is named again and again", true, func(f *http2.Framer, head []byte) error {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		_ = e.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("v", 4000)})
		again := bytes.Repeat([]byte{0x80 | 62}, 16_000-b.Len()-len(head))
		return times(scaled(200, 2000), func(i int) error {
			block := append(append(bytes.Clone(head), b.Bytes()...), again...)
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block, EndHeaders: true, EndStream: true})
		})
	}},
	{"PING", false, func(f *http2.Framer, _ []byte) error {
		return times(scaled(100_000, 2_000_000), func(int) error { return f.WritePing(false, [8]byte{}) })
	}},
	{"SETTINGS", false, func(f *http2.Framer, _ []byte) error {
		return times(scaled(100_000, 2_000_000), func(i int) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: uint32(i)}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)})
		})
	}},
	{"empty DATA", true, func(f *http2.Framer, head []byte) error {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head, EndHeaders: true})
		return times(scaled(100_000, 2_000_000), func(int) error { return f.WriteData(1, false, nil) })
	}},
	{"PRIORITY of streams that are none", true, func(f *http2.Framer, _ []byte) error {
		return times(scaled(100_000, 2_000_000), func(i int) error {
			return f.WritePriority(uint32(2*i+1), http2.PriorityParam{StreamDep: uint32(2*i + 3)})
		})
	}},
	{"streams whose bodies never come", true, func(f *http2.Framer, head []byte) error {
		return times(scaled(20_000, 200_000), func(i int) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head, EndHeaders: true})
		})
	}},
	{"a message that says it is of 4 GiB, on many streams", true, func(f *http2.Framer, head []byte) error {
		return times(scaled(2000, 20_000), func(i int) error {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head, EndHeaders: true})
			return f.WriteData(uint32(2*i+1), false, append([]byte("\x00\xff\xff\xff\xff"), make([]byte, 1000)...))
		})
	}},
}

// TestFloods sends each flood to each port that speaks HTTP/2, over some connections at once: the daemons go on, keep
// their lease and their memory, and serve a good client afterwards.
func TestFloods(t *testing.T) {
	l := start(t)
	for _, port := range []struct{ name, at, path string }{
		{"the region's HTTP port", l.at, "/aliquot.v1.LimiterService/Check"},
		{"the region's gRPC port", l.grpc, "/aliquot.v1.LimiterService/Check"},
		{"the region's gRPC port, a stream", l.grpc, "/aliquot.v1.LimiterService/CheckStream"},
		{"the coordinator's port", l.coordinatorAt, "/aliquot.v1.LeaseService/Report"},
	} {
		for _, flood := range floods {
			l.under(t, port.name+": "+flood.name, func() string {
				var all sync.WaitGroup
				var whole atomic.Int64
				for range flooding {
					all.Go(func() {
						onConnection(port.at, func(conn net.Conn) string {
							if l.flood(conn, port.path, flood.reads, flood.send) {
								whole.Add(1)
							}
							return ""
						})
					})
				}
				all.Wait()
				return fmt.Sprintf("%d of %d were sent to their end", whole.Load(), flooding)
			})
		}
	}
}

// flood sends frames and reports whether the daemon took all of them.
func (l *cluster) flood(conn net.Conn, path string, reads bool, send func(f *http2.Framer, head []byte) error) bool {
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", path}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	_, _ = io.WriteString(conn, http2.ClientPreface)
	out := bufio.NewWriterSize(conn, 64<<10)
	frames := http2.NewFramer(out, nil)
	frames.AllowIllegalWrites = true
	_ = frames.WriteSettings()
	if reads {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
	return send(frames, head.Bytes()) == nil && out.Flush() == nil
}
