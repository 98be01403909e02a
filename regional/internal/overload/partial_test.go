package overload

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const mostPartial = 4 << 20

// partialPipe is a connection before the bound, whose bytes are read to their end. Frames are written to frames.
type partialPipe struct {
	*http2.Framer
	client net.Conn
	server *partialConn
	ended  chan struct{}
}

func newPartialPipe(t *testing.T, bound *Partial) *partialPipe {
	client, conn := net.Pipe()
	p := &partialPipe{http2.NewFramer(client, nil), client, &partialConn{Conn: conn, bound: bound, in: frames{preface: 24}}, make(chan struct{})}
	p.AllowIllegalWrites = true
	go func() { _, _ = io.Copy(io.Discard, p.server); _ = p.server.Close(); close(p.ended) }()
	go func() { _, _ = io.Copy(io.Discard, client) }()
	t.Cleanup(func() { _ = client.Close(); <-p.ended })
	_, _ = io.WriteString(client, http2.ClientPreface)
	return p
}

// begin sends the beginning of a message of size bytes, n of them.
func (p *partialPipe) begin(stream uint32, size, n int) error {
	message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), make([]byte, n)...)
	var err error
	for len(message) > 0 && err == nil {
		part := message[:min(len(message), 16<<10)]
		message = message[len(part):]
		err = p.WriteData(stream, false, part)
	}
	return err
}

func (p *Partial) total() (used int64, conns int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, len(p.held)
}

// TestPartialMessagesAreCounted: a message above 4 KiB holds memory until it is whole, or its stream or connection ends.
func TestPartialMessagesAreCounted(t *testing.T) {
	headers := func() []byte {
		var b bytes.Buffer
		_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: "grpc-status", Value: "0"})
		return b.Bytes()
	}()
	for name, end := range map[string]func(p *partialPipe){
		"the rest comes":               func(p *partialPipe) { _ = p.WriteDataPadded(1, false, make([]byte, 50_000), make([]byte, 99)) },
		"the rest comes, byte by byte": func(p *partialPipe) { _ = times(50_000, func() error { return p.WriteData(1, false, []byte{0}) }) },
		"the client resets the stream": func(p *partialPipe) { _ = p.WriteRSTStream(1, http2.ErrCodeCancel) },
		"the client ends the stream":   func(p *partialPipe) { _ = p.WriteData(1, true, nil) },
		"the server resets the stream": func(p *partialPipe) { _ = http2.NewFramer(p.server, nil).WriteRSTStream(1, http2.ErrCodeNo) },
		"the server answers": func(p *partialPipe) {
			_ = http2.NewFramer(p.server, nil).WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers, EndHeaders: true, EndStream: true})
		},
		"the client closes":             func(p *partialPipe) { _ = p.client.Close() },
		"the server closes":             func(p *partialPipe) { _ = p.server.Close() },
		"a whole one of another stream": func(p *partialPipe) { _ = p.begin(3, 5000, 5000); _ = p.WriteRSTStream(1, http2.ErrCodeCancel) },
	} {
		synctest.Test(t, func(t *testing.T) {
			bound := NewPartial(mostPartial)
			p := newPartialPipe(t, bound)
			_ = p.WriteSettings()
			_ = p.begin(5, 100, 50)               // small
			_ = p.begin(7, mostPartial+1, 50)     // is refused
			_ = p.begin(9, 100_000, 100_000)      // whole
			_ = p.WriteData(11, false, []byte{0}) // of an unknown length
			synctest.Wait()
			if used, conns := bound.total(); used != 0 || conns != 0 {
				t.Errorf("%s: small, refused and whole messages hold %d", name, used)
			}
			_ = p.begin(1, 150_000, 100_000)
			synctest.Wait()
			if used, conns := bound.total(); used != 2*partialStep || conns != 1 {
				t.Errorf("%s: 100,000 bytes hold %d", name, used)
			}
			end(p)
			_ = p.WritePing(false, [8]byte{})
			synctest.Wait()
			if used, conns := bound.total(); used != 0 || conns != 0 {
				t.Errorf("%s: %d are held by %d afterwards", name, used, conns)
			}
		})
	}
}

func times(n int, do func() error) (err error) {
	for range n {
		err = do()
	}
	return err
}

// TestBytesInManyFramesCostMore: a frame of one byte holds a buffer.
func TestBytesInManyFramesCostMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := NewPartial(mostPartial)
		p := newPartialPipe(t, bound)
		_ = p.begin(1, 1_000_000, 0)
		_ = times(10_000, func() error { return p.WriteData(1, false, []byte{0}) })
		synctest.Wait()
		if used, _ := bound.total(); used < 10_000*costOfFrame {
			t.Errorf("10,000 frames hold %d", used)
		}
	})
}

// TestTheLargestHolderIsClosed: where there is no room for messages that are not whole, the connection goes that holds most.
func TestTheLargestHolderIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := NewPartial(mostPartial)
		good, bad := newPartialPipe(t, bound), newPartialPipe(t, bound)
		_ = good.begin(1, 1_000_000, 500_000)
		var err error
		for stream := uint32(1); err == nil && stream < 100; stream += 2 {
			err = bad.begin(stream, mostPartial, mostPartial-1)
		}
		synctest.Wait()
		if used, conns := bound.total(); err == nil || used > 1_000_000 || conns != 1 {
			t.Errorf("%d are held by %d connections, %v", used, conns, err)
		}
		other := newPartialPipe(t, bound)
		for stream := uint32(1); stream < 30; stream += 2 { // 60 MiB
			_ = other.begin(stream, mostPartial, mostPartial-1)
		}
		err = good.begin(3, mostPartial, mostPartial-1) // for which there is no room
		synctest.Wait()
		if used, conns := bound.total(); err != nil || conns != 1 || used > 5<<20 {
			t.Errorf("the connection with little: %v; %d are held by %d", err, used, conns)
		}
	})
}

// TestAMessageThatIsNeverWhole: its connection is closed after a while, and one with messages that become whole is not.
func TestAMessageThatIsNeverWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := NewPartial(mostPartial)
		good, bad := newPartialPipe(t, bound), newPartialPipe(t, bound)
		began := time.Now()
		_ = bad.begin(1, 5000, 4999)
		closed := make(chan time.Duration, 1)
		go func() { <-bad.ended; closed <- time.Since(began) }()
		for stream := uint32(1); stream < 100; stream += 2 { // always one that is not whole
			_ = good.begin(stream, 5000, 4000)
			if stream > 1 {
				_ = good.WriteData(stream-2, false, make([]byte, 1000))
			}
			<-time.After(time.Second)
		}
		if after := <-closed; after != partialFor {
			t.Errorf("it is closed after %v", after)
		}
		if err := good.WritePing(false, [8]byte{}); err != nil {
			t.Errorf("the good connection: %v", err)
		}
	})
}

// TestTooManyPartialMessages: a connection with more of them than it may have streams is closed.
func TestTooManyPartialMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartialPipe(t, NewPartial(mostPartial))
		var err error
		for stream := uint32(1); err == nil && stream < 4*maxPartials; stream += 2 {
			err = p.WriteData(stream, false, []byte{0})
		}
		if err == nil {
			t.Error("it is open")
		}
	})
}

// TestFramesInPieces: frames are followed however they are cut.
func TestFramesInPieces(t *testing.T) {
	var sent bytes.Buffer
	f := http2.NewFramer(&sent, nil)
	_ = f.WriteSettings()
	_ = f.WriteDataPadded(1, false, []byte("ab"), make([]byte, 3))
	_ = f.WriteData(3, true, nil)
	_ = f.WriteData(5, false, []byte("cdefg"))
	_ = f.WriteRSTStream(5, 0)
	_ = f.WritePing(false, [8]byte{})
	for piece := 1; piece <= sent.Len(); piece++ {
		var got frames
		data, ended := "", ""
		for rest := sent.Bytes(); len(rest) > 0; rest = rest[min(piece, len(rest)):] {
			got.follow(rest[:min(piece, len(rest))], func(f *frames, part []byte, whole bool) {
				if f.kind == frameData {
					data += string(part)
				}
				if whole && f.ends() {
					ended += string('0' + rune(f.stream))
				}
			})
		}
		if data != "abcdefg" || ended != "35" {
			t.Errorf("by %d bytes: data %q, ended %q", piece, data, ended)
		}
	}
}
