package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"aliquot/internal/testaddr"
)

// announcing is a value in MessagePack of which hashicorp's decoder makes room for 4 GiB.
const announcing = "\x81\xa1x\xc9\xff\xff\xff\xff\xff"

// restoreBombs restore files of snapshots whose checksum is right, of 8 million empty entries.
func (l *cluster) restoreBombs(t *testing.T) string {
	sent := restoring(snapshotFile("\x0a\x01c" + strings.Repeat("\x62\x00", 8<<20-100)))
	return post(t, l.coordinatorAt, "application/connect+proto", "", sent, scaled(3, 20), "/aliquot.v1.ClusterService/RestoreSnapshot")
}

// halves sends CheckBatch over gRPC, streams at once on some connections: messages of 4 MiB that are all but whole, and
// compressed ones of 4 MiB in 4 KiB.
func (l *cluster) halves(t *testing.T) string {
	const whole = 4_000_000
	half := append(binary.BigEndian.AppendUint32([]byte{0}, whole), make([]byte, whole-1)...)
	zipped := packed("", "\x0a\x00", whole)
	zipped = append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(zipped))), zipped...)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	var all, under sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer all.Wait()
	defer stop()
	for range scaled(4, 16) {
		client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
		defer client.CloseIdleConnections()
		for i := range 60 {
			under.Add(1)
			sent := sync.OnceFunc(under.Done)
			body, encoding := io.MultiReader(bytes.NewReader(half), &untilDone{ctx, sent}), "identity"
			if i%2 == 1 { // which ends by itself
				body, encoding = bytes.NewReader(zipped), "gzip"
			}
			all.Go(func() {
				defer sent()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.grpc+"/aliquot.v1.LimiterService/CheckBatch", io.NopCloser(body))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Content-Type", "application/grpc")
				r.Header.Set("Te", "trailers")
				r.Header.Set("Grpc-Encoding", encoding)
				if out, err := client.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, out.Body)
					out.Body.Close()
				}
			})
		}
	}
	under.Wait() // all that can be sent is
	l.until(t, "a daemon with half of many messages serves another client", func() bool { return l.good(t) == http.StatusOK })
	return ""
}

// untilDone is the rest of a body, of which nothing comes.
type untilDone struct {
	ctx  context.Context
	sent func() // is called when all before it was sent
}

func (u *untilDone) Read([]byte) (int, error) {
	u.sent()
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

// unreadRules applies a large rules file and asks for it on many streams that have no room for the answer.
func (l *cluster) unreadRules(t *testing.T) string {
	body, err := json.Marshal(map[string]string{"yaml": rules + strings.Repeat("#"+strings.Repeat("x", 99)+"\n", 10_000)})
	if err != nil {
		t.Fatal(err)
	}
	answer := call(l.coordinatorAt, "/aliquot.v1.RuleService/ApplyRules", "application/json", body)
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", "/aliquot.v1.RuleService/GetRules"}, {"content-type", "application/proto"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	for range scaled(4, 20) {
		c, err := net.Dial("tcp", l.coordinatorAt)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer c.Close()
		frames := http2.NewFramer(c, c)
		_, _ = io.WriteString(c, http2.ClientPreface)
		_ = frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for i := range uint32(240) {
			if frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: head.Bytes(), EndHeaders: true, EndStream: true}) != nil {
				break
			}
		}
		for range scaled(100, 200) { // answers and refusals, whose heads have no window
			f, err := frames.ReadFrame()
			if err != nil {
				break
			}
			if ping, is := f.(*http2.PingFrame); is {
				_ = frames.WritePing(true, ping.Data)
			}
		}
	}
	return "rules " + answer[:min(3, len(answer))]
}

// announcedBodies open calls of every service from one address that announce the largest message and send nothing. Calls of
// another address are answered meanwhile, unless that address is attacking, too.
func (l *cluster) announcedBodies(t *testing.T) string {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(testaddr.Host())}}
	for _, path := range []string{"LeaseService/Hello", "LeaseService/Report", "RuleService/PlanRules"} {
		for range scaled(10, 100) {
			c, err := from.Dial("tcp", l.coordinatorAt)
			if err != nil {
				t.Error(err)
				return ""
			}
			defer c.Close()
			_, _ = fmt.Fprintf(c, "POST /aliquot.v1.%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/proto\r\nContent-Length: %d\r\n\r\n", path, 5<<20)
		}
	}
	large := strings.Repeat(" ", 100_000)
	for _, method := range []string{"LeaseService/Report", "RuleService/PlanRules"} {
		if got := call(l.coordinatorAt, "/aliquot.v1."+method, "application/json", []byte(`{"region":"us"`+large+`}`)); !strings.HasPrefix(got, "400 ") && !l.crowded {
			t.Errorf("%s of another address: %s", method, got)
		}
	}
	return "another address is answered"
}

// announcements send what hashicorp's decoder makes room for 4 GiB of to the gossip and Raft ports: by UDP, TCP, packed, and
// in each of Raft's kinds of messages behind the greeting of a voter. Callers of one address that have greeted and say
// nothing leave room for peers.
func (p *peers) announcements(t *testing.T) string {
	servers, cluster := p.gossiped(t)
	sent := 0
	for _, v := range p.nodes {
		c, err := net.Dial("udp", v.gossip)
		if err != nil {
			t.Fatal(err)
		}
		for kind := range byte(14) {
			for range scaled(10, 100) {
				_, _ = c.Write(append([]byte("\xf4\x07aliquot"), string([]byte{kind})+announcing...))
				sent++
			}
			onConnection(v.gossip, func(conn net.Conn) string {
				_, _ = conn.Write(append([]byte("\xf4\x07aliquot"), string([]byte{kind})+announcing...))
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
				return ""
			})
			sent++
		}
		_ = c.Close()
		for kind := range byte(5) {
			before := v.refused("kind")
			onConnection(v.raft, func(conn net.Conn) string {
				_, _ = conn.Write(append(greeting("AQR2", servers[v.id], cluster), string([]byte{kind})+announcing...))
				_, _ = io.Copy(io.Discard, conn)
				return ""
			})
			sent++
			p.until(t, "it is counted", func() bool { return v.refused("kind") > before })
		}
	}
	leader, _ := p.leader(t)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(testaddr.Host())}}
	for range 200 {
		c, err := from.Dial("tcp", leader.raft)
		if err != nil {
			t.Error(err)
			break
		}
		defer c.Close()
		_, _ = c.Write(greeting("AQR2", servers[leader.id], cluster))
	}
	p.commits(t)
	return fmt.Sprintf("%d messages, 200 connections that greet and say nothing", sent)
}
