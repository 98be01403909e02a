package gossip

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"testing"
	"time"
)

var gossipKey = []byte("0123456789abcdef")

func testSeal(t testing.TB) *seal {
	t.Helper()
	s, err := newSeal(gossipKey, "x")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sealed is a message as a holder of the key sends it, with some data beside it.
func sealed(t testing.TB, version byte, message, data []byte) []byte {
	t.Helper()
	nonce := []byte("a nonce once")
	return testSeal(t).key.Seal(append([]byte{version}, nonce...), nonce, message, data)
}

// sealedExchange is a sealed message of a connection of the cluster x.
func sealedExchange(t testing.TB, version byte, message []byte) []byte {
	t.Helper()
	n := len(sealed(t, version, message, nil))
	head := binary.BigEndian.AppendUint32([]byte{kindEncrypted}, uint32(n))
	return append(head, sealed(t, version, message, append(bytes.Clone(head), 'x'))...)
}

// TestWhatIsSealedIsBounded: who has the cluster's key makes a node use no more memory than who has not, and ends no
// node with a message that memberlist cannot take.
func TestWhatIsSealedIsBounded(t *testing.T) {
	few := encoded(t, kindPushPull, exchangeHead{Nodes: 3})
	beyond := append([]byte{3}, announcing...)
	for _, c := range []struct {
		name    string
		version byte
		message []byte
		packet  bool // it fits as a packet
		stream  bool // it is read from a connection
	}{
		{"three nodes", sealVersion, few, true, true},
		{"packed", sealVersion, squeezed(t, few), true, true},
		{"4 GiB announced", sealVersion, beyond, false, false},
		{"4 GiB announced, packed", sealVersion, squeezed(t, beyond), false, false},
		{"too many nodes", sealVersion, encoded(t, kindPushPull, exchangeHead{Nodes: maxExchangeNodes + 1}), true, false},
		{"for nobody", sealVersion, encoded(t, kindUser, struct{ UserMsgLen int }{1 << 20}), true, false},
		{"more than may be, packed", sealVersion, squeezed(t, make([]byte, maxExchange+1)), false, false},
		{"an earlier version, whose padding is longer than it", 0, []byte{kindPushPull, 0xff}, false, false},
		{"nothing", sealVersion, nil, false, false},
	} {
		s := testSeal(t)
		if got := s.fits(labelled(sealed(t, c.version, c.message, []byte("x")))); got != c.packet {
			t.Errorf("%s: it fits as a packet: %v", c.name, got)
		}
		sent := labelled(sealedExchange(t, c.version, c.message))
		in, err := boundedReader(bytes.NewReader(sent), s)
		if (err == nil) != c.stream {
			t.Errorf("%s: from a connection: %v", c.name, err)
		}
		if err != nil {
			continue
		}
		if read, err := io.ReadAll(in); err != nil || !bytes.Equal(read, sent) {
			t.Errorf("%s: %d bytes of %d came, %v", c.name, len(read), len(sent), err)
		}
	}
}

// TestWhatIsNotSealedIsLeftToMemberlist, which logs that it refuses it.
func TestWhatIsNotSealedIsLeftToMemberlist(t *testing.T) {
	s := testSeal(t)
	forged := sealed(t, sealVersion, []byte("\x00ping"), []byte("another cluster"))
	if !s.fits(labelled(forged)) {
		t.Error("a packet of another cluster is dropped without a word")
	}
	sent := labelled(sealedExchange(t, sealVersion, []byte("\x00ping")))
	sent[len(sent)-1] ^= 1
	if _, err := boundedReader(bytes.NewReader(sent), s); err == nil {
		t.Error("an exchange with a flipped bit is read")
	}
	long := labelled(binary.BigEndian.AppendUint32([]byte{kindEncrypted}, maxExchange+1))
	if _, err := boundedReader(bytes.NewReader(long), s); err == nil {
		t.Error("an exchange that is longer than may be is read")
	}
	if _, err := newSeal([]byte("short"), "x"); err == nil {
		t.Error("a key of five bytes is taken")
	}
}

// FuzzSealed: no bytes that a holder of the key seals end the node.
func FuzzSealed(f *testing.F) {
	f.Add(byte(sealVersion), encoded(f, kindPushPull, exchangeHead{Nodes: 3}))
	f.Add(byte(0), announcing)
	s := testSeal(f)
	f.Fuzz(func(t *testing.T, version byte, message []byte) {
		s.fits(labelled(sealed(t, version, message, []byte("x"))))
		if in, err := boundedReader(bytes.NewReader(labelled(sealedExchange(t, version, message))), s); err == nil {
			_, _ = io.Copy(io.Discard, in)
		}
	})
}

// TestNodesWithAKeyMeet: what the look at sealed messages lets through is what memberlist sends.
func TestNodesWithAKeyMeet(t *testing.T) {
	start := func(id, key string) *Gossip {
		g, err := Start(Config{
			Listen: "127.0.0.1:0", Label: "test", Key: []byte(key), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Allow: func(string, time.Time) bool { return true },
		}, Meta{Role: RoleCoordinator, NodeID: id, InstanceID: "0000000a", Raft: "127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.list.Shutdown() })
		return g
	}
	first, second, stranger := start("c1", string(gossipKey)), start("c2", string(gossipKey)), start("c3", "another sixteen!")
	if n, err := second.list.Join([]string{first.address}); n != 1 || err != nil {
		t.Errorf("%d nodes were joined: %v", n, err)
	}
	if len(second.list.Members()) != 2 { // the first has read what was sealed, and its answer was read
		t.Errorf("members: %v", second.list.Members())
	}
	if n, err := stranger.list.Join([]string{first.address}); n != 0 || err == nil {
		t.Errorf("a node with another key joined %d: %v", n, err)
	}
}
