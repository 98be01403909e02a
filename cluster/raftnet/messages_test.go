package raftnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"aliquot/cluster/msgpack"
)

// announcing is a value of which the decoder makes room for as much as it says, here 64 KiB.
const announcing = "\x81\xa1x\xc8\xff\xff\xff"

func request(t *testing.T, kind byte, message any) []byte {
	t.Helper()
	out := bytes.NewBuffer([]byte{kind})
	h := &codec.MsgpackHandle{}
	h.TimeNotBuiltin = true
	if err := codec.NewEncoder(out, h).Encode(message); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestMessagesAreLookedAt: what servers send passes, in pieces of any size. What announces more than any message has does
// not, wherever it is.
func TestMessagesAreLookedAt(t *testing.T) {
	entries := request(t, 0, &raft.AppendEntriesRequest{Term: 3, Entries: []*raft.Log{{Index: 1, Data: make([]byte, 100_000), AppendedAt: time.Unix(1, 2)}}})
	vote, preVote := request(t, 1, &raft.RequestVoteRequest{Term: 3}), request(t, 4, &raft.RequestPreVoteRequest{Term: 3})
	snapshot := append(request(t, kindSnapshot, &raft.InstallSnapshotRequest{Size: 9}), announcing+"ab"...) // its bytes may be any
	huge := request(t, kindSnapshot, &raft.InstallSnapshotRequest{Size: 1 << 40})
	for _, c := range []struct {
		name    string
		answers bool
		sent    []byte
		want    error
	}{
		{"requests", false, slices.Concat(entries, vote, snapshot, preVote, snapshot, entries), nil},
		{"answers", true, slices.Concat(request(t, 0xa0, &raft.AppendEntriesResponse{Term: 3}), request(t, 0xa0, &raft.RequestVoteResponse{Term: 3})), nil},
		{"the head of a snapshot that is too large", false, huge, nil},
		{"what follows it", false, append(bytes.Clone(huge), 0), errBehindLarge},
		{"a request that announces much", false, []byte("\x00" + announcing), msgpack.ErrBeyond},
		{"a vote that announces much", false, append(bytes.Clone(entries), "\x01"+announcing...), msgpack.ErrBeyond},
		{"a request behind a snapshot that announces much", false, append(bytes.Clone(snapshot), "\x04"+announcing...), msgpack.ErrBeyond},
		{"the head of a snapshot that announces much", false, []byte("\x02" + announcing), msgpack.ErrBeyond},
		{"a request of an unknown kind that announces much", false, []byte("\x63" + announcing), msgpack.ErrBeyond},
		{"an error that announces much", true, []byte(announcing), msgpack.ErrBeyond},
		{"an answer that announces much", true, []byte("\xa0" + announcing), msgpack.ErrBeyond},
		{"more entries than a message has room for", false, append([]byte("\x00\xdc\x00\x60"), bytes.Repeat(append([]byte("\xc6\x00\x80\x00\x00"), make([]byte, 8<<20)...), 34)...), errLarge},
		{"an answer of 2 MiB", true, append([]byte("\xc6\x00\x20\x00\x00"), make([]byte, 2<<20)...), errLarge},
		{"a snapshot's head of 2 MiB", false, append([]byte("\x02\xc6\x00\x20\x00\x00"), make([]byte, 2<<20)...), errLarge},
	} {
		for _, piece := range []int{1, 5, len(c.sent)} {
			if len(c.sent) > 10<<20 && piece < 10 {
				continue
			}
			m := messages{requests: !c.answers}
			var err error
			for part := range slices.Chunk(c.sent, piece) {
				if _, err = m.look(part); err != nil {
					break
				}
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%s, by %d bytes: %v, want %v", c.name, piece, err, c.want)
			}
		}
	}
}

// TestTheHeadOfALargeSnapshotIsRead: so that the guard refuses it by name, though bytes of the snapshot came with it.
func TestTheHeadOfALargeSnapshotIsRead(t *testing.T) {
	head := request(t, kindSnapshot, &raft.InstallSnapshotRequest{Size: 1 << 40})
	client, conn := net.Pipe()
	defer client.Close()
	go func() { _, _ = client.Write(append(bytes.Clone(head), "bytes"...)) }()
	got, err := io.ReadAll(&watched{Conn: conn, layer: NewLayer(nil, Config{}), messages: messages{requests: true}})
	if err != nil || !bytes.Equal(got, head) {
		t.Errorf("%d bytes are read of a head of %d, %v", len(got), len(head), err)
	}
}

// TestAConfigurationThatAnnouncesMuch: the servers in an entry or a snapshot are decoded by the library, too.
func TestAConfigurationThatAnnouncesMuch(t *testing.T) {
	if err := checkEntry(&raft.Log{Type: raft.LogConfiguration, Data: []byte(announcing)}); !errors.Is(err, msgpack.ErrBeyond) {
		t.Errorf("a configuration: %v", err)
	}
}

// listening is a layer of the server c1/a, with what it refuses. Each connection is read to its end.
func listening(t *testing.T) (dial func(from string) net.Conn, refused <-chan error, s *Layer) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 10)
	s = NewLayer(l, Config{
		Self: "c1/a", Cluster: func() string { return "" }, Logger: slog.New(slog.DiscardHandler),
		Allow: func(string, time.Time) bool { return false }, Refused: func(_ string, err error) { errs <- err },
	})
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() }()
		}
	}()
	t.Cleanup(func() { _ = s.Close() })
	return func(from string) net.Conn {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := dialer.DialContext(context.Background(), "tcp", l.Addr().String())
		if err == nil {
			_, err = io.WriteString(c, greetingMagic+"\x04c1/a\x00")
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}, errs, s
}

// ended waits for the end of a connection.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("the connection is answered")
	}
}

// TestARefusedMessageEndsItsConnection: it is counted, and nothing of it is read on.
func TestARefusedMessageEndsItsConnection(t *testing.T) {
	dial, refused, _ := listening(t)
	c := dial("127.0.0.1")
	_, _ = io.WriteString(c, "\x00"+announcing)
	if err := <-refused; !errors.Is(err, msgpack.ErrBeyond) || !strings.Contains(err.Error(), c.LocalAddr().String()) {
		t.Errorf("refused with %v", err)
	}
	ended(t, c)
}

// TestOneLargeMessageAtATime: a message above 1 MiB waits until another one is whole, or its connection ends, but not for
// ever; and it does not take for ever itself.
func TestOneLargeMessageAtATime(t *testing.T) {
	large := append([]byte("\x00\xc6\x00\x40\x00\x00"), make([]byte, 4<<20)...)
	for name, c := range map[string]struct {
		end   func(client, server net.Conn) // ends the first message; nil: nothing does
		reads bool                          // the second message is read then
	}{
		"it is whole":         {func(client, _ net.Conn) { _, _ = client.Write(large[largeMessage+1000:]) }, true},
		"its connection ends": {func(client, server net.Conn) { _ = client.Close(); _ = server.Close() }, true},
		"nothing comes":       {nil, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := NewLayer(nil, Config{})
			accepted := func() (client net.Conn, server *watched, read <-chan int) {
				client, conn := net.Pipe()
				server = &watched{Conn: conn, layer: s, messages: messages{requests: true}}
				n := make(chan int, 1)
				go func() {
					all, _ := io.Copy(io.Discard, server)
					server.release()
					n <- int(all)
				}()
				t.Cleanup(func() { _ = client.Close(); _ = conn.Close() })
				return client, server, n
			}
			first, firstServer, _ := accepted()
			second, secondServer, read := accepted()
			_, _ = first.Write(large[:largeMessage+1000])
			synctest.Wait()
			go func() { _, _ = second.Write(large); _ = second.Close() }()
			synctest.Wait()
			if !firstServer.holds.Load() || secondServer.holds.Load() {
				t.Errorf("%s: the first has the place %v, the second %v", name, firstServer.holds.Load(), secondServer.holds.Load())
			}
			if c.end != nil {
				c.end(first, firstServer)
				if n := <-read; (n == len(large)) != c.reads {
					t.Errorf("%s: %d bytes are read of the second message", name, n)
				}
				return
			}
			began := time.Now()
			<-read
			if waited := time.Since(began); waited != largeTimeout {
				t.Errorf("%s: the second message waited for %v", name, waited)
			}
			synctest.Wait()
			if len(s.large) != 0 {
				t.Errorf("%s: the first message has the place after %v", name, largeTimeout)
			}
		})
	}
}

// TestOneHostHasAPartOfTheRaftPort: callers of one address that have greeted and say nothing leave room for others.
func TestOneHostHasAPartOfTheRaftPort(t *testing.T) {
	dial, _, s := listening(t)
	admitted := func(n int) {
		for last := 0; last < n; runtime.Gosched() {
			s.mu.Lock()
			last = len(s.conns)
			s.mu.Unlock()
		}
	}
	for i := range maxRaftConnsOfOne {
		dial("127.0.0.1")
		admitted(i + 1)
	}
	ended(t, dial("127.0.0.1"))
	dial("127.0.0.77")
	admitted(maxRaftConnsOfOne + 1)
}
