package attack

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

var update = flag.Bool("update", false, "write the answers of TestInputs into "+inputsPage)

const inputsPage = "docs/reference/inputs.md"

// input is one bad input. sent describes what send sends, and send returns the answer.
type input struct {
	sent string
	send func(*cluster) string
}

// inputGroup is a table of docs/reference/inputs.md.
type inputGroup struct {
	title, command string
	inputs         []input
}

// answers sends the inputs one after the other, or those that wait for a daemon's patience at once.
func (g *inputGroup) answers(l *cluster) []string {
	out := make([]string, len(g.inputs))
	var all sync.WaitGroup
	for i := range g.inputs {
		all.Go(func() { out[i] = g.inputs[i].send(l) })
		if !strings.HasPrefix(g.command, "A raw socket") {
			all.Wait()
		}
	}
	all.Wait()
	return out
}

// TestInputs sends every bad input of docs/reference/inputs.md to real daemons, which must answer as that page says, go on, keep
// their lease and serve a good client.
func TestInputs(t *testing.T) {
	l := start(t)
	l.until(t, "the rules are in force", func() bool { return strings.HasPrefix(l.check(`{"attributes":{"api_key":"x"}}`), "200 allowed") })
	page, err := os.ReadFile(filepath.Join("../../..", inputsPage))
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(page), "\n## ")
	if !found {
		before = strings.TrimRight(before, "\n") + "\n"
	}
	var out strings.Builder
	out.WriteString(before)
	for _, g := range inputGroups {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| sent | answer |\n|---|---|\n", g.title, g.command)
		l.under(t, g.title, func() string {
			for i, answer := range g.answers(l) {
				line := fmt.Sprintf("| %s | %s |\n", g.inputs[i].sent, cell(answer))
				out.WriteString(line)
				if !*update && !strings.Contains(string(page), line) {
					t.Errorf("%s: %s does not say\n%s", g.title, inputsPage, line)
				}
			}
			return ""
		})
	}
	if *update {
		if err := os.WriteFile(filepath.Join("../../..", inputsPage), []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if out.String() != string(page) {
		t.Errorf("%s is not as it is now; run this test with -args -update and read what changed", inputsPage)
	}
}

// cell makes an answer fit for a table.
func cell(answer string) string {
	answer = strings.Join(strings.Fields(strings.ToValidUTF8(answer, "?")), " ")
	if len(answer) > 200 {
		answer = answer[:200] + "..."
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(answer)
}

// call posts a body to an address and says how it was answered.
func call(at, path, kind string, body []byte, headers ...string) string {
	r, err := http.NewRequest(http.MethodPost, "http://"+at+path, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", kind)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	client := http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	out, err := client.Do(r)
	if err != nil {
		return err.Error()
	}
	return answered(out)
}

// answered says in one line what an answer says.
func answered(out *http.Response) string {
	defer out.Body.Close()
	text, _ := io.ReadAll(out.Body)
	var a struct {
		Code, Message, Mode, Title, Detail, State, ID, FloorHolder string
		Decision                                                   *struct{ Allowed bool }
		Allowed                                                    *bool
		Never                                                      bool
		Results                                                    []any
	}
	status := fmt.Sprint(out.StatusCode)
	if out.Header.Get("Content-Type") == "application/proto" {
		return status
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return strings.TrimSpace(status + " " + strings.TrimPrefix(string(text), status+" "))
	}
	switch {
	case a.Code != "":
		return status + " " + a.Code + ": " + a.Message
	case a.Detail != "":
		return status + " " + a.Title + ": " + a.Detail
	case a.Allowed != nil && *a.Allowed:
		return status + " allowed"
	case a.Allowed != nil && a.Never:
		return status + " denied, never"
	case a.Allowed != nil:
		return status + " denied"
	case a.Results != nil:
		return fmt.Sprintf("%s, %d answers", status, len(a.Results))
	case a.Decision != nil && a.Decision.Allowed:
		return status + " reserved"
	}
	return strings.TrimSpace(status + " " + a.State)
}

func (l *cluster) check(body string) string {
	return call(l.at, "/aliquot.v1.LimiterService/Check", "application/json", []byte(body))
}

func checked(body string) func(*cluster) string {
	return func(l *cluster) string { return l.check(body) }
}

// limited calls a method of the regional daemon's.
func limited(method, body string) func(*cluster) string {
	return func(l *cluster) string {
		return call(l.at, "/aliquot.v1.LimiterService/"+method, "application/json", []byte(body))
	}
}

// asked calls a method of the coordinator's.
func asked(method, body string) func(*cluster) string {
	return func(l *cluster) string {
		return call(l.coordinatorAt, "/aliquot.v1."+method, "application/json", []byte(body))
	}
}

// wired sends a protobuf message to Check.
func wired(body string, headers ...string) func(*cluster) string {
	return func(l *cluster) string {
		return call(l.at, "/aliquot.v1.LimiterService/Check", "application/proto", []byte(body), headers...)
	}
}

// onConnection returns what talk says of a connection to an address. The connection ends after 30 s.
func onConnection(address string, talk func(conn net.Conn) string) string {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	return talk(conn)
}

// raw sends bytes to the regional daemon's HTTP port.
func raw(text string) func(*cluster) string {
	return func(l *cluster) string {
		return onConnection(l.at, func(conn net.Conn) string {
			go func() { _, _ = io.WriteString(conn, text) }() // the daemon may answer before it has read all
			out, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return "the connection is closed"
			}
			return answered(out)
		})
	}
}

// pipelined sends so many requests at once on one connection, and counts the answers.
func pipelined(n int) func(*cluster) string {
	return func(l *cluster) string {
		return onConnection(l.at, func(conn net.Conn) string {
			go func() { _, _ = io.WriteString(conn, strings.Repeat("GET /check HTTP/1.1\r\nHost: h\r\n\r\n", n)) }()
			in := bufio.NewReader(conn)
			for i := range n {
				out, err := http.ReadResponse(in, nil)
				if err != nil {
					return fmt.Sprintf("%d answers, and %v", i, err)
				}
				_, _ = io.Copy(io.Discard, out.Body)
			}
			return fmt.Sprintf("%d answers", n)
		})
	}
}

// halfClosed sends bytes to the regional daemon's HTTP port and then no more.
func halfClosed(text string) func(*cluster) string {
	return func(l *cluster) string {
		return onConnection(l.at, func(conn net.Conn) string {
			_, _ = io.WriteString(conn, text)
			_ = conn.(*net.TCPConn).CloseWrite()
			out, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return "the connection is closed"
			}
			return answered(out)
		})
	}
}

// behind sends a request whose body is malformed, and another request behind it, and returns the statuses of the answers.
func behind(port func(*cluster) string, path, body string) func(*cluster) string {
	return func(l *cluster) string {
		return onConnection(port(l), func(conn net.Conn) string {
			_, _ = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+body+
				"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			in, answers := bufio.NewReader(conn), ""
			for {
				out, err := http.ReadResponse(in, nil)
				if err != nil {
					return answers + "the connection is closed"
				}
				_, _ = io.Copy(io.Discard, out.Body)
				answers += out.Status + "; "
			}
		})
	}
}

// proxied is GET /check with lines of headers.
func proxied(target string, lines ...string) func(*cluster) string {
	return raw("GET " + target + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + strings.Join(append(lines, "", ""), "\r\n"))
}

// applied applies a rules file at the version in force.
func applied(yaml string, expected ...string) func(*cluster) string {
	return func(l *cluster) string {
		m := map[string]string{"yaml": yaml}
		if len(expected) > 0 {
			m["expectedVersion"] = expected[0]
		}
		body, _ := json.Marshal(m)
		return asked("RuleService/ApplyRules", string(body))(l)
	}
}

// rule applies a file of one rule.
func rule(params string) func(*cluster) string {
	return applied("rules: [{id: a, key: [api_key], " + params + "}]\n")
}

// started runs a daemon with flags that it has to refuse, and returns the first line of its output.
func started(program string, args ...string) func(*cluster) string {
	return func(l *cluster) string {
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "TAKEN", l.at)
		}
		cmd := exec.Command(filepath.Join(bin, program), args...)
		cmd.Dir = l.dir
		timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		text, _ := cmd.CombinedOutput()
		said := strings.ReplaceAll(string(text), l.at, "127.0.0.1:7500")
		line, _, _ := strings.Cut(said, "\n")
		if strings.HasPrefix(line, "time=") {
			line = said[strings.LastIndexByte(strings.TrimSpace(said), '\n')+1:]
		}
		if _, why, logged := strings.Cut(said, " error="); logged {
			why, _, _ = strings.Cut(why, "\n")
			line, _ = strconv.Unquote(why)
		}
		return fmt.Sprintf("exit %d: %s", cmd.ProcessState.ExitCode(), line)
	}
}

// session opens a session of the region eu, which no daemon serves, and sends a report in it.
func session(change func(report map[string]any)) func(*cluster) string {
	return func(l *cluster) string {
		l.nonce++
		hello := l.opened(map[string]any{"region": "eu", "incarnation": "1", "nonce": l.nonce, "redisEpoch": "n:r:1"})
		report := map[string]any{
			"region": "eu", "epoch": hello["epoch"], "session": hello["session"], "seq": "1", "ack": "0",
			"keys": []map[string]any{{
				"key":   map[string]any{"rule": 1, "hash": base64.StdEncoding.EncodeToString(make([]byte, 16))},
				"share": map[string]any{"rate": 1, "burst": 1}, "admittedMicro": "1000000", "offeredMicro": "1000000",
				"limit": map[string]any{"capacityMicro": "1000000000000", "rateMicro": "1000000000000"},
			}},
		}
		change(report)
		body, _ := json.Marshal(report)
		return asked("LeaseService/Report", string(body))(l)
	}
}

// key changes the key of a report.
func key(name string, value any) func(*cluster) string {
	return session(func(r map[string]any) { r["keys"].([]map[string]any)[0][name] = value })
}

// opened is the answer to a Hello.
func (l *cluster) opened(hello map[string]any) (out map[string]any) {
	body, _ := json.Marshal(hello)
	r, err := http.Post("http://"+l.coordinatorAt+"/aliquot.v1.LeaseService/Hello", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil
	}
	defer r.Body.Close()
	_ = json.NewDecoder(r.Body).Decode(&out)
	return out
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

// manyAttributes is a JSON object's fields.
func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"a%d":"v"`, i)
	}
	return b.String()[1:]
}

// many is a list of a text with the numbers below n.
func many(n int, text string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(text, i)
	}
	return strings.Join(all, ", ")
}

func costing(cost string) func(*cluster) string {
	return checked(`{"attributes":{"api_key":"c"},"cost":` + cost + `}`)
}

func valued(value string) func(*cluster) string {
	return checked(`{"attributes":{"api_key":` + value + `}}`)
}

// silent sends bytes to a port that does not speak HTTP, and says what comes back.
func silent(port func(*cluster) string, text string) func(*cluster) string {
	return func(l *cluster) string {
		return onConnection(port(l), func(conn net.Conn) string {
			go func() { _, _ = io.WriteString(conn, text) }()
			if n, err := conn.Read(make([]byte, 1)); err != nil {
				return "the connection is closed, nothing is answered"
			} else {
				return fmt.Sprintf("%d bytes are answered", n)
			}
		})
	}
}

// times calls do n times, or until it fails.
func times(n int, do func(i int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// pingedOrClosed is framed where the daemon may do either, by how far it came with the frames.
func pingedOrClosed(send func(f *http2.Framer, head []byte) error) func(*cluster) string {
	return func(l *cluster) string {
		answer := framed(send)(l)
		if answer == pinged || answer == closed {
			return pinged + ", or " + closed
		}
		return answer
	}
}

// Answers to frames.
const pinged, closed = "the PING is answered", "the connection is closed"

// framed sends frames over HTTP/2, and then a request on a connection of its own. head are the headers of a request.
func framed(send func(f *http2.Framer, head []byte) error) func(*cluster) string {
	return func(l *cluster) string {
		return onConnection(l.at, func(conn net.Conn) string {
			var head bytes.Buffer
			e := hpack.NewEncoder(&head)
			for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/check"}} {
				_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
			}
			_, _ = io.WriteString(conn, http2.ClientPreface)
			out := bufio.NewWriterSize(conn, 64<<10)
			frames := http2.NewFramer(out, conn)
			_ = frames.WriteSettings()
			last := [8]byte{'l', 'a', 's', 't'}
			if send(frames, head.Bytes()) == nil && frames.WritePing(false, last) == nil && out.Flush() == nil {
				for {
					frame, err := frames.ReadFrame()
					if err != nil {
						break
					}
					if ping, is := frame.(*http2.PingFrame); is && ping.Data == last {
						return pinged
					}
				}
			}
			return closed
		})
	}
}

// overGRPC calls a method on the region's gRPC port, and returns the status of gRPC.
func overGRPC(method, encoding, message string) func(*cluster) string {
	return func(l *cluster) string {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{Protocols: protocols}}
		defer client.CloseIdleConnections()
		frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
		if encoding != "identity" {
			frame[0] = 1
		}
		r, err := http.NewRequest(http.MethodPost, "http://"+l.grpc+"/aliquot.v1.LimiterService/"+method, strings.NewReader(string(frame)+message))
		if err != nil {
			return err.Error()
		}
		r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Grpc-Encoding": {encoding}}
		out, err := client.Do(r)
		if err != nil {
			return err.Error()
		}
		defer out.Body.Close()
		_, _ = io.Copy(io.Discard, out.Body)
		return "grpc " + out.Header.Get("Grpc-Status") + out.Trailer.Get("Grpc-Status") + ": " + out.Header.Get("Grpc-Message") + out.Trailer.Get("Grpc-Message")
	}
}

// snapshotFile is the file of a snapshot's message, with the right length and checksum.
func snapshotFile(message string) []byte {
	sum := sha256.Sum256([]byte(message))
	file := append(binary.BigEndian.AppendUint64([]byte("aqsnaps\x01"), uint64(len(message))), sum[:]...)
	return append(file, message...)
}

// restoring is the stream that restores a file.
func restoring(file []byte) (sent []byte) {
	for part := range slices.Chunk(file, 512<<10) {
		message := append(binary.AppendUvarint([]byte{0x0a}, uint64(len(part))), part...)
		sent = append(binary.BigEndian.AppendUint32(append(sent, 0), uint32(len(message))), message...)
	}
	return sent
}

var clusterID = regexp.MustCompile(`cluster [0-9a-f]{16}`)

// restored restores a file and returns the error at the end of the answer.
func restored(file []byte) func(*cluster) string {
	return func(l *cluster) string {
		r, err := http.Post("http://"+l.coordinatorAt+"/aliquot.v1.ClusterService/RestoreSnapshot", "application/connect+proto", bytes.NewReader(restoring(file)))
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		var end struct {
			Error struct{ Code, Message string }
		}
		if len(text) < 5 || json.Unmarshal(text[5:], &end) != nil {
			return fmt.Sprintf("%d %q", r.StatusCode, text)
		}
		return clusterID.ReplaceAllString(end.Error.Code+": "+end.Error.Message, "cluster ID")
	}
}

var inputGroups = []inputGroup{
	{"Values of a check", "`POST /aliquot.v1.LimiterService/Check` as JSON; the value of `api_key` unless a line says otherwise.", []input{
		{"`{a}`", valued(`"{a}"`)},
		{"`}{`", valued(`"}{"`)},
		{"`{}`", valued(`"{}"`)},
		{"a NUL", valued(`"a\u0000b"`)},
		{"CR, LF and `FLUSHALL`", valued(`"a\r\nFLUSHALL\r\n"`)},
		{"text from right to left", valued(`"\u202eabc\u05d0"`)},
		{"é as one character", valued(`"\u00e9"`)},
		{"é as two characters, which is another client", valued(`"e\u0301"`)},
		{"`__proto__`, as a name too", checked(`{"attributes":{"__proto__":"x","api_key":"__proto__"}}`)},
		{"`*`", valued(`"*"`)},
		{"4 KiB", valued(`"` + strings.Repeat("v", 4<<10) + `"`)},
		{"4 KiB and a byte", valued(`"` + strings.Repeat("v", 4<<10+1) + `"`)},
		{"1 MiB", valued(`"` + strings.Repeat("v", 1<<20) + `"`)},
		{"5 MiB", valued(`"` + strings.Repeat("v", 5<<20) + `"`)},
		{"invalid UTF-8", valued("\"\xff\xfe\"")},
		{"half of a surrogate pair", valued(`"\ud800"`)},
		{"a number", valued(`1`)},
		{"64 attributes", checked(`{"attributes":{` + manyAttributes(64) + `}}`)},
		{"10,000 attributes", checked(`{"attributes":{` + manyAttributes(10_000) + `}}`)},
		{"an attribute without a name", checked(`{"attributes":{"":"v"}}`)},
		{"a namespace of 65 bytes", checked(`{"namespace":"` + strings.Repeat("n", 65) + `"}`)},
	}},
	{"Costs", "`POST /aliquot.v1.LimiterService/Check` as JSON with this `cost`.", []input{
		{"0", costing("0")}, {"-1", costing("-1")}, {"-2^63", costing("-9223372036854775808")}, {"2^63-1", costing("9223372036854775807")},
		{"2^63", costing("9223372036854775808")}, {"2^53+1", costing("9007199254740993")}, {"NaN", costing("NaN")}, {"1e400", costing("1e400")},
		{"1.5", costing("1.5")}, {`"1"`, costing(`"1"`)}, {"null", costing("null")}, {"above the capacity", costing("1000001")},
	}},
	{"Requests", "`POST` to a method of `/aliquot.v1.LimiterService`.", []input{
		{"CheckBatch of none", limited("CheckBatch", `{"requests":[]}`)},
		{"CheckBatch of 1,001", limited("CheckBatch", `{"requests":[{}`+strings.Repeat(`,{}`, 1000)+`]}`)},
		{"CheckBatch of the same one twice", limited("CheckBatch", `{"requests":[{"attributes":{"api_key":"d"}},{"attributes":{"api_key":"d"}}]}`)},
		{"CheckBatch whose costs sum above 2^63", limited("CheckBatch", `{"requests":[`+strings.TrimSuffix(strings.Repeat(`{"cost":"1000000000000"},`, 1000), ",")+`]}`)},
		{"an unknown field", checked(`{"attribute":{}}`)},
		{"an unknown method", limited("Chekc", `{}`)},
		{"Explain of an unknown decision", limited("Explain", `{"decisionId":"none"}`)},
		{"JSON 20,000 deep", checked(strings.Repeat(`{"attributes":`, 20_000))},
		{"JSON 20,000 deep in an unknown field", checked(`{"x":` + strings.Repeat(`[`, 20_000) + `}`)},
		{"no body", checked(``)},
		{"two objects", checked(`{}{}`)},
		{"a protobuf that is cut", wired("\x0a\x10ab")},
		{"a varint of 11 bytes", wired("\x10" + strings.Repeat("\xff", 10) + "\x01")},
		{"a length of 2^31", wired("\x0a\x80\x80\x80\x80\x08")},
		{"a field of a wrong type", wired("\x08\x01")},
		{"gzip: 64 MiB in 64 KiB", wired(zipped(strings.Repeat("\x00", 64<<20)), "Content-Encoding: gzip")},
		{"gzip that is none", wired("nothing", "Content-Encoding: gzip")},
		{"`Content-Encoding: gzip, gzip`", wired("{}", "Content-Encoding: gzip, gzip")},
		{"`Content-Type: application/json; charset=utf-7`", wired("{}", "Content-Type: application/json; charset=utf-7")},
		{"gRPC-Web: a message that says it is of 4 GiB", wired("\x00\xff\xff\xff\xff", "Content-Type: application/grpc-web+proto")},
		{"gRPC-Web as text", wired("AAAAAAA=", "Content-Type: application/grpc-web-text")},
		{"9,000 unknown groups in each other", wired(strings.Repeat("\x7b", 9000) + strings.Repeat("\x7c", 9000))},
		{"200,000 unknown fields", wired(strings.Repeat("\x78\x01", 200_000))},
		{"an attribute's name with a line end and an escape", checked(`{"attributes":{"a\nlevel=ERROR\u001b[31m":"c"}}`)},
		{"a tier with a line end and an escape", checked(`{"attributes":{"api_key":"a","tier":"x\nlevel=ERROR\u001b[2J"}}`)},
		{"a namespace with a NUL and a line end", checked(`{"namespace":"a\u0000\n","attributes":{"api_key":"a"}}`)},
		{"Explain of an id of 5 KB", limited("Explain", `{"decisionId":"us-\n`+strings.Repeat("x", 5000)+`"}`)},
		{"Reserve for 10,000 years", limited("Reserve", `{"attributes":{"api_key":"a"},"ttl":"315576000000s"}`)},
		{"Reserve for -1 s", limited("Reserve", `{"attributes":{"api_key":"a"},"ttl":"-1s"}`)},
		{"CheckBatch over gRPC, compressed", overGRPC("CheckBatch", "gzip", zipped("\x0a\x00"))},
		{"a message over gRPC of 5 MiB", overGRPC("CheckBatch", "identity", strings.Repeat("\x0a\x00", 5<<19))},
		{"`Content-Type: text/html`", func(l *cluster) string {
			return call(l.at, "/aliquot.v1.LimiterService/Check", "text/html", []byte(`{}`))
		}},
		{"`Connect-Timeout-Ms: 99999999999`", wired("", "Connect-Timeout-Ms: 99999999999")},
		{"`Connect-Timeout-Ms: -1`", wired("", "Connect-Timeout-Ms: -1")},
		{"`Connect-Timeout-Ms: 0`", wired("", "Connect-Timeout-Ms: 0")},
		{"Check by GET", raw("GET /aliquot.v1.LimiterService/Check?encoding=json&message={} HTTP/1.1\r\nHost: h\r\n\r\n")},
		{"Reserve, twice with one id", func(l *cluster) string {
			body := `{"id":"i","attributes":{"api_key":"r"}}`
			return limited("Reserve", body)(l) + "; " + limited("Reserve", body)(l)
		}},
		{"Reserve with that id for another cost", limited("Reserve", `{"id":"i","attributes":{"api_key":"r"},"cost":2}`)},
		{"Settle of that id by a caller who guessed it", limited("Settle", `{"id":"i"}`)},
		{"Settle with a cost of -1", limited("Settle", `{"id":"i","cost":-1}`)},
	}},
	{"HTTP", "A raw socket to the region's HTTP port.", []input{
		{"headers of 10 MiB", raw("GET /check HTTP/1.1\r\nHost: h\r\nX-API-Key: " + strings.Repeat("k", 10<<20) + "\r\n\r\n")},
		{"headers that are never finished", raw("GET /check HTTP/1.1\r\nHost: h\r\nX-A: ")},
		{"a chunk without a length", raw("POST /aliquot.v1.LimiterService/Check HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")},
		{"a chunk without a length, and a request behind it", behind(func(l *cluster) string { return l.at }, "/aliquot.v1.LimiterService/Check", "zz\r\n")},
		{"a chunk of 2^64 bytes, and a request behind it", behind(func(l *cluster) string { return l.at }, "/aliquot.v1.LimiterService/Check", "10000000000000000\r\n")},
		{"the same to the coordinator", behind(func(l *cluster) string { return l.coordinatorAt }, "/aliquot.v1.RuleService/GetRules", "10000000000000000\r\n")},
		{"`Transfer-Encoding: xchunked`", raw("POST /check HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n")},
		{"a length of +4", raw("POST /check HTTP/1.1\r\nHost: h\r\nContent-Length: +4\r\n\r\nabcd")},
		{"two names", raw("GET /check HTTP/1.1\r\nHost: h\r\nHost: g\r\n\r\n")},
		{"a header's name that ends with a space", raw("GET /check HTTP/1.1\r\nHost: h\r\nX-API-Key : k\r\n\r\n")},
		{"HTTP/9.9", raw("GET /check HTTP/9.9\r\nHost: h\r\n\r\n")},
		{"CONNECT", raw("CONNECT other:80 HTTP/1.1\r\nHost: other:80\r\n\r\n")},
		{"CR in a value", proxied("/check", "X-API-Key: a\rb")},
		{"NUL in a value", proxied("/check", "X-API-Key: a\x00b")},
		{"`Transfer-Encoding` and `Content-Length`", raw("POST /check HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
		{"two lengths", raw("POST /check HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd")},
		{"an absolute URI", proxied("http://other/check")},
		{"no Host", raw("GET /check HTTP/1.1\r\n\r\n")},
		{"HTTP/1.0", raw("GET /check HTTP/1.0\r\n\r\n")},
		{"TRACE", raw("TRACE / HTTP/1.1\r\nHost: h\r\n\r\n")},
		{"1,000 requests in one piece", pipelined(1000)},
		{"half of a body, and the end of the sender's half of the connection", halfClosed("POST /aliquot.v1.LimiterService/Check HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")},
		{"`Expect: nothing`", raw("POST /check HTTP/1.1\r\nHost: h\r\nExpect: nothing\r\nContent-Length: 2\r\n\r\n{}")},
		{"`Upgrade: h2c`", proxied("/check", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")},
		{"no HTTP", raw("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")},
	}},
	{"HTTP/2", "Frames to the region's HTTP port, and then a PING.", []input{
		{"20,000 streams, each reset at once", pingedOrClosed(func(f *http2.Framer, head []byte) error {
			return times(20_000, func(i int) error {
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: head, EndHeaders: true, EndStream: true})
				return f.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
			})
		})},
		{"20,000 CONTINUATION frames", framed(func(f *http2.Framer, head []byte) error {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head})
			return times(20_000, func(int) error { return f.WriteContinuation(1, false, bytes.Repeat([]byte("\x00\x01a\x01b"), 100)) })
		})},
		{"2,000,000 PINGs whose answers nobody reads", framed(func(f *http2.Framer, _ []byte) error {
			return times(2_000_000, func(int) error { return f.WritePing(false, [8]byte{}) })
		})},
	}},
	{"GET /check", "`GET /check` from a trusted proxy on loopback.", []input{
		{"`X-Forwarded-For` of 1,000 hops", proxied("/check", "X-Forwarded-For: "+strings.TrimSuffix(strings.Repeat("198.51.100.1,", 1000), ","))},
		{"`X-Forwarded-For: ::ffff:198.51.100.9`", proxied("/check", "X-Forwarded-For: ::ffff:198.51.100.9")},
		{"`X-Forwarded-For: ,,,`", proxied("/check", "X-Forwarded-For: ,,,")},
		{"an empty bearer token", proxied("/check", "Authorization: Bearer ")},
		{"two bearer tokens", proxied("/check", "Authorization: Bearer a", "Authorization: Bearer b")},
		{"a bearer token of 1 MiB", proxied("/check", "Authorization: Bearer "+strings.Repeat("k", 1<<20))},
		{"two API keys", proxied("/check", "X-API-Key: a", "X-API-Key: b")},
		{"an API key and another bearer token", proxied("/check", "X-API-Key: a", "Authorization: Bearer b")},
		{"`X-Original-URI` twice", proxied("/check", "X-Original-URI: /a", "X-Original-URI: /b")},
		{"`X-Original-URI` and another `X-Forwarded-Uri`", proxied("/check", "X-Original-URI: /a", "X-Forwarded-Uri: /b")},
		{"`cost=1&cost=2`", proxied("/check?cost=1&cost=2")},
		{"a path whose encoding is invalid", proxied("/check", "X-Original-URI: /%zz")},
		{"a key that is not UTF-8", proxied("/check", "X-API-Key: \xff\xfe")},
		{"a path with %00", proxied("/check", "X-Original-URI: /a%00b")},
		{"`namespace=a&namespace=b`", proxied("/check?namespace=a&namespace=b")},
		{"`cost=0`", proxied("/check?cost=0")},
		{"`cost=NaN`", proxied("/check?cost=NaN")},
		{"`costs=5`", proxied("/check?costs=5")},
		{"`deny_status=200`", proxied("/check?deny_status=200")},
	}},
	{"Reports", "`POST /aliquot.v1.LeaseService/Report` as JSON, in a session of its own unless a line says otherwise.", []input{
		{"an ordinary one", session(func(map[string]any) {})},
		{"usage of -1", key("admittedMicro", "-1")},
		{"usage above 2^63", key("admittedMicro", "9223372036854775808")},
		{"offered 2^63-1", key("offeredMicro", "9223372036854775807")},
		{"a share above the whole", key("share", map[string]any{"rate": 2_000_000, "burst": 0})},
		{"a limit of -1", key("limit", map[string]any{"capacityMicro": "-1"})},
		{"a key's hash of 3 bytes", key("key", map[string]any{"rule": 1, "hash": "AAAA"})},
		{"a rule that does not exist", key("key", map[string]any{"rule": 4_000_000, "hash": base64.StdEncoding.EncodeToString(make([]byte, 16))})},
		{"sequence 0", session(func(r map[string]any) { r["seq"] = "0" })},
		{"sequence 2^64-1", session(func(r map[string]any) { r["seq"] = "18446744073709551615" })},
		{"an acknowledgement of what was not sent", session(func(r map[string]any) { r["ack"] = "5" })},
		{"an old epoch", session(func(r map[string]any) { r["epoch"] = "0" })},
		{"a future epoch", session(func(r map[string]any) { r["epoch"] = "99" })},
		{"another session", session(func(r map[string]any) { r["session"] = "9999" })},
		{"a clock that is a year ahead", session(func(r map[string]any) { r["tSend"] = "31536000000000000" })},
		{"500,000 keys", session(func(r map[string]any) {
			k := r["keys"].([]map[string]any)[0]
			all := make([]map[string]any, 500_000)
			for i := range all {
				all[i] = map[string]any{"key": k["key"]}
			}
			r["keys"] = all
		})},
		{"the same key twice", session(func(r map[string]any) {
			k := r["keys"].([]map[string]any)[0]
			r["keys"] = []map[string]any{k, k}
		})},
		{"slots of 7 bytes", session(func(r map[string]any) { r["unreachedSlots"] = "AAAAAAAAAA==" })},
		{"40 other daemons", session(func(r map[string]any) { r["others"] = make([]int, 40) })},
		{"a clock at the end of time", session(func(r map[string]any) { r["tSend"] = "9223372036854775807" })},
		{"a clock before all time", session(func(r map[string]any) { r["tSend"] = "-9223372036854775808" })},
		{"an undeclared region", session(func(r map[string]any) { r["region"] = "mars" })},
		{"a region's name of 1 MiB", session(func(r map[string]any) { r["region"] = strings.Repeat("x", 1<<20) })},
		{"Hello without a nonce", asked("LeaseService/Hello", `{"region":"eu","incarnation":"1","redisEpoch":"n:r:1"}`)},
		{"Hello of an undeclared region", asked("LeaseService/Hello", `{"region":"mars","incarnation":"1","nonce":"8","redisEpoch":"n:r:1"}`)},
		{"Hello of another daemon of a live region", asked("LeaseService/Hello", `{"region":"us","incarnation":"1","nonce":"8","redisEpoch":"n:r:1"}`)},
		{"Hello with an epoch of 20,000 bytes", asked("LeaseService/Hello", `{"region":"eu","incarnation":"1","nonce":"8","redisEpoch":"`+strings.Repeat("x", 20_000)+`"}`)},
	}},
	{"Rules", "`POST /aliquot.v1.RuleService/ApplyRules` as JSON. Where the answer is not 200, the rules stay as they were.", []input{
		{"`capacity: 0`", rule("params: {capacity: 0, refill_rate: 1}")},
		{"`capacity: -1`", rule("params: {capacity: -1, refill_rate: 1}")},
		{"`capacity: 9223372036854775807`", rule("params: {capacity: 9223372036854775807, refill_rate: 1}")},
		{"`window: 0`", rule("params: {limit: 5, window: 0}")},
		{"`window: 1ns`", rule("params: {limit: 5, window: 1ns}")},
		{"`window: 876000h` (100 years)", rule("algorithm: fixed_window, params: {limit: 5, window: 876000h}")},
		{"`refill_rate: .nan`", rule("params: {capacity: 5, refill_rate: .nan}")},
		{"two rules of one id", applied("rules:\n- {id: a, params: {capacity: 5, refill_rate: 1}}\n- {id: a, params: {capacity: 5, refill_rate: 1}}\n")},
		{"`rules` twice", applied("rules: []\nrules: []\n")},
		{"a NUL behind the rules", applied("rules: []\x00")},
		{"two byte order marks", applied("\ufeff\ufeffrules: []\n")},
		{"two documents", applied("rules: []\n---\nrules: []\n")},
		{"a tag", applied("rules: !!python/object []\n")},
		{"a merge key", applied("rules: [{<<: {id: a}}]\n")},
		{"10,000 lists in each other", applied("rules: " + strings.Repeat("[", 10_000))},
		{"`capacity: 1e400`", rule("params: {capacity: 1e400, refill_rate: 1}")},
		{"`capacity: 010`", rule("params: {capacity: 010, refill_rate: 1}")},
		{"`capacity: 1_000`", rule("params: {capacity: 1_000, refill_rate: 1}")},
		{"a capacity of a million digits", rule("params: {capacity: " + strings.Repeat("9", 1_000_000) + ", refill_rate: 1}")},
		{"20,000 overrides of a rule", rule("params: {capacity: 5, refill_rate: 1}, override: {" + many(20_000, "k%d: {capacity: 5}") + "}")},
		{"100,000 clients in the whitelist", applied("whitelist: [" + many(100_000, "k%d") + "]\nrules: []\n")},
		{"rules that replace each other", applied("rules:\n- {id: a, params: {capacity: 5, refill_rate: 1}, replaces: [b]}\n- {id: b, params: {capacity: 5, refill_rate: 1}, replaces: [a]}\n")},
		{"an id `../../x`", applied("rules: [{id: ../../x, params: {capacity: 5, refill_rate: 1}}]\n")},
		{"100,000 rules in 7 MB", applied("rules:\n" + strings.Repeat("- {id: r, key: [api_key], params: {capacity: 5, refill_rate: 1}}      \n", 100_000))},
		{"an author of 100 KB with escapes", asked("RuleService/ApplyRules", `{"yaml":"rules: []\n","author":"a\nlevel=ERROR\u001b[31m`+strings.Repeat("z", 100_000)+`"}`)},
		{"30,000 rules", applied("rules:\n" + strings.Repeat("- {id: a}\n", 30_000))},
		{"a regular expression `(a+)+$`", rule(`match: {endpoint_regex: "(a+)+$"}, params: {capacity: 5, refill_rate: 1}, shadow: true`)},
		{"a regular expression `a{1000}{1000}`", rule(`match: {endpoint_regex: "a{1000}{1000}"}, params: {capacity: 5, refill_rate: 1}`)},
		{"a regular expression `(`", rule(`match: {endpoint_regex: "("}, params: {capacity: 5, refill_rate: 1}`)},
		{"anchors that grow (a billion laughs)", applied("rules: []\ndefaults:\n  a: &a [x, x]\n  b: &b [*a, *a]\n")},
		{"50,000 mappings in each other", applied("rules: " + strings.Repeat("{a: ", 50_000))},
		{"4 MiB of `- `", applied(strings.Repeat("- ", 2<<20))},
		{"5 MiB", applied(strings.Repeat("#", 5<<20))},
		{"a tab that indents", applied("rules:\n\t- id: a\n")},
		{"CRLF and a byte order mark", applied("\ufeffrules:\r\n  - {id: big, key: [api_key], params: {capacity: 1000000, refill_rate: 1000000}, local_cache: false}\r\n")},
		{"an unknown field", applied("rulez: []\n")},
		{"a version that is over", applied(rules, "99")},
		{"version 0", applied(rules, "0")},
		{"rollback to a version that never was", asked("RuleService/RollbackRules", `{"version":"999"}`)},
		{"rollback to version 0", asked("RuleService/RollbackRules", `{"version":"0"}`)},
		{"`borrow_wait: -1s`", rule("params: {capacity: 5, refill_rate: 1}, borrow_wait: -1s")},
		{"`borrow_wait: 10s`, which is longer than a call", rule("params: {capacity: 5, refill_rate: 1}, borrow_wait: 10s")},
		{"an override above the largest number", rule("params: {capacity: 5, refill_rate: 1}, override: {k: {capacity: 1e30}}")},
		{"GetBudget of a rule that is none", asked("BudgetService/GetBudget", `{"ruleId":"../../x"}`)},
	}},
	{"Regions and members", "`POST` to the coordinator as JSON.", []input{
		{"AddRegion `../../x`", asked("RegionService/AddRegion", `{"name":"../../x","weight":1}`)},
		{"AddRegion without a name", asked("RegionService/AddRegion", `{"weight":1}`)},
		{"AddRegion with a weight of -1", asked("RegionService/AddRegion", `{"name":"ap","weight":-1}`)},
		{"AddRegion of one that exists", asked("RegionService/AddRegion", `{"name":"us","weight":1}`)},
		{"UpdateRegion of one that does not", asked("RegionService/UpdateRegion", `{"name":"mars","weight":1}`)},
		{"UpdateRegion to 2^31-1", asked("RegionService/UpdateRegion", `{"name":"us","weight":2147483647}`)},
		{"FenceRegion, which believes its operator", asked("RegionService/FenceRegion", `{"name":"eu"}`)},
		{"Hello of a region that is fenced", asked("LeaseService/Hello", `{"region":"eu","incarnation":"1","nonce":"9","redisEpoch":"n:r:1"}`)},
		{"FenceRegion of the last one", asked("RegionService/FenceRegion", `{"name":"us"}`)},
		{"DrainRegion of the last one", asked("RegionService/DrainRegion", `{"name":"us"}`)},
		{"DrainRegion of one that does not exist", asked("RegionService/DrainRegion", `{"name":"mars"}`)},
		{"RemoveMember of the last voter", asked("ClusterService/RemoveMember", `{"nodeId":"c1"}`)},
		{"RemoveMember of a stranger", asked("ClusterService/RemoveMember", `{"nodeId":"c9"}`)},
		{"Join without an address", asked("ClusterService/Join", `{"nodeId":"c2"}`)},
		{"SetTiming with a lease of 1 ns", asked("ClusterService/SetTiming", `{"lease":"0.000000001s"}`)},
		{"SetTiming with a lease of 100 years", asked("ClusterService/SetTiming", `{"lease":"3153600000s"}`)},
		{"SetTiming with a rho of -1", asked("ClusterService/SetTiming", `{"rho":-1}`)},
		{"RestoreSnapshot", asked("ClusterService/RestoreSnapshot", `{}`)},
	}},
	{"Snapshots", "`POST` of a file to `/aliquot.v1.ClusterService/RestoreSnapshot`, as a stream of Connect's.", []input{
		{"noise", restored([]byte("\x00\xff noise"))},
		{"nothing", restored(nil)},
		{"half of a file", restored(snapshotFile("\x0a\x01c")[:50])},
		{"a file with a flipped bit", restored(append(snapshotFile("\x0a\x01c")[:48], "\x0a\x01b"...))},
		{"a file of a newer format", restored([]byte("aqsnaps\x02" + strings.Repeat("x", 100)))},
		{"a file that says it has 2^62 bytes", restored(append([]byte("aqsnaps\x01\x40"), make([]byte, 100)...))},
		{"another cluster's", restored(snapshotFile("\x0a\x010"))},
		{"16 MiB of empty entries", restored(snapshotFile("\x0a\x010" + strings.Repeat("\x62\x00", 8<<20-100)))},
		{"more than 16 MiB", restored(make([]byte, 17<<20))},
	}},
	{"Raft's port", "A raw socket to `--raft-listen`.", []input{
		{"random bytes", silent(func(l *cluster) string { return l.raft }, strings.Repeat("\xa5\x5a\x00\xff", 4<<10))},
		{"an HTTP request", silent(func(l *cluster) string { return l.raft }, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")},
		{"1 MiB of zeros", silent(func(l *cluster) string { return l.raft }, strings.Repeat("\x00", 1<<20))},
	}},
	{"Configuration", "The daemons with these flags.", []input{
		{"regional: no region", started("regional", "--state-file", "none")},
		{"regional: a region `../../x`", started("regional", "--region", "../../x", "--state-file", "none")},
		{"regional: a port that is taken", started("regional", "--region", "eu", "--coordinators", "127.0.0.1:1", "--state-file", "none", "--listen", "TAKEN", "--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0")},
		{"regional: the same port twice", started("regional", "--region", "eu", "--state-file", "none", "--listen", "127.0.0.1:29871", "--grpc-listen", "127.0.0.1:29871", "--ops-listen", "127.0.0.1:0")},
		{"regional: a Redis URL without a scheme", started("regional", "--region", "eu", "--coordinators", "127.0.0.1:1", "--state-file", "none", "--redis", "127.0.0.1:6379")},
		{"regional: not loopback", started("regional", "--region", "eu", "--state-file", "none", "--listen", "0.0.0.0:0")},
		{"regional: an unknown flag", started("regional", "--regoin", "eu")},
		{"regional: a Redis URL with a password, and a port that is none", started("regional", "--region", "eu", "--coordinators", "127.0.0.1:1", "--state-file", "none", "--redis", "redis://:secret@h:port")},
		{"regional: `--throttle-after -1`", started("regional", "--region", "eu", "--coordinators", "127.0.0.1:1", "--state-file", "none", "--throttle-after", "-1")},
		{"regional: a trusted network `300.0.0.0/8`", started("regional", "--region", "eu", "--coordinators", "127.0.0.1:1", "--state-file", "none", "--trusted-proxies", "300.0.0.0/8")},
		{"coordinator: `--raft-multiplier -1`", started("coordinator", "--node-id", "c", "--data-dir", "d", "--raft-multiplier", "-1")},
		{"coordinator: `--bootstrap-expect -1`", started("coordinator", "--node-id", "c", "--data-dir", "d", "--bootstrap-expect", "-1")},
		{"coordinator: `--bootstrap-expect many`", started("coordinator", "--bootstrap-expect", "many")},
		{"coordinator: a node id `../../x`", started("coordinator", "--node-id", "../../x", "--data-dir", "d")},
		{"coordinator: a region twice", started("coordinator", "--node-id", "c", "--data-dir", "d", "--regions", "us,us")},
		{"coordinator: a key file that everybody can read", func(l *cluster) string {
			file := filepath.Join(l.dir, "key")
			if err := os.WriteFile(file, []byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"), 0o644); err != nil {
				return err.Error()
			}
			return strings.ReplaceAll(started("coordinator", "--node-id", "c", "--regions", "us", "--data-dir", filepath.Join(l.dir, "other"), "--gossip-key-file", file)(l), l.dir, "DIR")
		}},
	}},
}
