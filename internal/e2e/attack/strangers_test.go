package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"aliquot/internal/testaddr"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// eu starts a daemon of the region eu, which nobody attacks otherwise, and returns its address.
func (p *peers) eu(t *testing.T, args ...string) (cmd *exec.Cmd, at, ops string) {
	t.Helper()
	free := testaddr.Ports(t, 3)
	cmd = run(t, p.dir, filepath.Join(bin, "regional"), append([]string{"--region", "eu", "--listen", free[0], "--grpc-listen", free[1], "--ops-listen", free[2]}, args...)...)
	return cmd, free[0], free[2]
}

// stateFiles starts a daemon without a coordinator, with state files that are damaged. Nothing passes, or the daemon says
// why it does not start; and a file that is whole still decides.
func (p *peers) stateFiles(t *testing.T) string {
	var whole []byte
	p.until(t, "a state file is written", func() bool {
		whole, _ = os.ReadFile(p.state)
		return strings.Contains(string(whole), "plan: open")
	})
	parts := func(change func(map[string]any)) []byte {
		var m map[string]any
		if err := json.Unmarshal(whole, &m); err != nil {
			t.Fatal(err)
		}
		delete(m, "sum") // as files of older versions
		m["region"] = "eu"
		change(m)
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const damaged = "no_rules_yet, put aside"
	flipped := []byte(strings.Replace(string(whole), "plan: open", "plan: opeN", 1))
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"a whole one", "the rules decide", parts(func(map[string]any) {})},
		{"none", "no_rules_yet", nil},
		{"an empty one", damaged, []byte{}},
		{"half of one", damaged, whole[:len(whole)/2]},
		{"one with a flipped bit", damaged, flipped},
		{"noise", damaged, []byte("\x00\xff noise")},
		{"null", damaged, []byte("null")},
		{"floors that sum above the whole", damaged, parts(func(m map[string]any) {
			for _, r := range m["cluster"].(map[string]any)["regions"].([]any) {
				r.(map[string]any)["floor"] = map[string]any{"Rate": 1 << 20, "Burst": 1 << 20}
			}
		})},
		{"an epoch that no leader has", damaged, parts(func(m map[string]any) { m["epoch"] = uint64(1) << 63 })},
		{"a newer format", "written by a newer version", parts(func(m map[string]any) { m["format"] = 99 })},
		{"a newer format with other types", "written by a newer version", []byte(`{"format": 99, "region": {"name": "eu"}, "epoch": "7"}`)},
		{"another region's", `belongs to region "us"`, parts(func(m map[string]any) { m["region"] = "us" })},
		{"a folder", "not a regular file", []byte("folder")},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "state.json")
			var err error
			if c.name == "a folder" {
				err = os.Mkdir(file, 0o700)
			} else if c.data != nil {
				err = os.WriteFile(file, c.data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := p.startedWith(t, file); !strings.Contains(got, c.want) {
				t.Errorf("%s; want %s", got, c.want)
			}
		})
	}
	return ""
}

// startedWith says what a daemon does with a state file: the last line of its output if it ends, or what decides a check.
func (p *peers) startedWith(t *testing.T, file string) (outcome string) {
	cmd, at, ops := p.eu(t, "--coordinators", "127.0.0.1:1", "--state-file", file)
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	p.until(t, "the daemon answers or ends", func() bool {
		select {
		case <-ended:
			text, _ := os.ReadFile(cmd.Stdout.(*os.File).Name())
			outcome = string(text)
			return true
		default:
		}
		out, err := http.Post("http://"+at+"/aliquot.v1.LimiterService/Check", "application/json", strings.NewReader(goodCheck))
		if err != nil || metricOf(ops, "aliquot_rules_version") < 0 {
			return false
		}
		defer out.Body.Close()
		var a struct {
			Allowed bool
			Mode    string
		}
		if json.NewDecoder(out.Body).Decode(&a) != nil {
			return false
		}
		outcome = "the rules decide"
		if a.Mode == "no_rules_yet" {
			outcome = a.Mode
			if a.Allowed {
				t.Error("a check passed without rules")
			}
		}
		if _, err := os.Stat(file + ".bad"); err == nil {
			outcome += ", put aside"
		}
		return true
	})
	return outcome
}

// pages calls the daemons as a web page does whose name was pointed at them, or whose origin is another one.
func (p *peers) pages(t *testing.T) string {
	const json, connect = "application/json", "/aliquot.v1."
	asked := 0
	for _, c := range []struct {
		at, method, path string
		header           string // one more header
		want             int
	}{
		{p.coordinatorAt, "POST", connect + "RuleService/ApplyRules", "Host: page.example.com", 403},
		{p.coordinatorAt, "POST", connect + "RuleService/GetRules", "Host: page.example.com:7400", 403},
		{p.coordinatorAt, "GET", "/v1/rules", "Host: page.example.com", 403},
		{p.coordinatorAt, "POST", connect + "RuleService/ApplyRules", "Origin: http://page.example.com", 403},
		{p.coordinatorAt, "POST", connect + "RuleService/ApplyRules", "Sec-Fetch-Site: cross-site", 403},
		{p.coordinatorAt, "POST", connect + "ClusterService/Join", "Host: page.example.com", 403},
		{p.coordinatorAt, "POST", connect + "RuleService/GetRules", "Host: localhost", 200},
		{p.at, "POST", connect + "LimiterService/Check", "Host: page.example.com", 403},
		{p.at, "POST", connect + "LimiterService/Check", "Origin: http://page.example.com", 403},
		{p.at, "GET", "/check", "Host: shop.example.com", 200},
		{p.ops, "GET", "/hotkeys", "Host: page.example.com", 403},
		{p.ops, "GET", "/held", "Host: page.example.com", 403},
		{p.ops, "GET", "/metrics", "Host: page.example.com", 200},
	} {
		r, err := http.NewRequest(c.method, "http://"+c.at+c.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", json)
		name, value, _ := strings.Cut(c.header, ": ")
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
		out, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Errorf("%s %s with %s: %v", c.method, c.path, c.header, err)
			continue
		}
		text, _ := io.ReadAll(out.Body)
		out.Body.Close()
		if out.StatusCode != c.want {
			t.Errorf("%s %s with %s: %s, want %d: %.300s", c.method, c.path, c.header, out.Status, c.want, text)
		}
		asked++
	}
	return fmt.Sprintf("%d requests", asked)
}

// pretenders try to be another client, or another path, than they are: over GET /check of a daemon that trusts no proxy
// in reach, and of one that does; and by the ids of reservations that others made.
func (p *peers) pretenders(t *testing.T) string {
	_, alone, ops := p.eu(t, "--coordinators", p.nodes[0].at, "--state-file", "none", "--trusted-proxies", "192.0.2.0/24")
	p.until(t, "the region eu holds a lease", func() bool { return metricOf(ops, "aliquot_lease_remaining_seconds") > 0 })
	_, bearer, ops2 := p.eu(t, "--coordinators", p.nodes[0].at, "--state-file", "none", "--api-key-from", "header")
	p.until(t, "the second daemon knows the rules", func() bool { return metricOf(ops2, "aliquot_rules_version") > 0 })
	get := func(at, target string, lines ...string) (answer string) {
		p.until(t, "GET "+target+" is not refused because the machine was stopped", func() bool {
			answer = proxied(target, lines...)(&cluster{at: at})
			return !strings.HasPrefix(answer, "503")
		})
		return answer
	}
	passed := 0
	for i := range 16 {
		if a := get(alone, "/check", fmt.Sprintf("X-User-Id: made-up-%d", i), fmt.Sprintf("X-Forwarded-For: 198.51.100.%d", i), "X-Original-URI: /few"); strings.HasPrefix(a, "200") {
			passed++
		}
	}
	if passed == 0 || passed > 8 {
		t.Errorf("%d of 16 passed under made-up users and addresses, and the limit is 8", passed)
	}
	for _, c := range []struct{ at, target, line, want string }{
		{p.at, "/check", "X-API-Key: made-up\r\nAuthorization: Bearer real", "400 "},
		{p.at, "/check?deny_status=403", "X-API-Key: made-up\r\nAuthorization: Bearer real", "403 "},
		{bearer, "/check", "X-API-Key: made-up\r\nAuthorization: Bearer real", "200"},
		{p.at, "/check", "X-API-Key: k\r\nX-User-Id: u", "200"},
		{alone, "/check?cost=5", "X-API-Key: k", "400 "},
		{p.at, "/check", "X-Original-URI: /v2/orders", "200"},
		{p.at, "/check", "X-Original-URI: /v1/orders", "429 "},
		{p.at, "/check", "X-Original-URI: /v1%2Forders", "429 "},
		{p.at, "/check", "X-Original-URI: /v1%252Forders", "429 "},
		{p.at, "/check", "X-Original-URI: /v1;a=b/orders", "429 "},
		{p.at, "/check", `X-Original-URI: /v1\orders`, "429 "},
		{p.at, "/check", "X-Original-URI: /x/..%2Fv1/orders", "429 "},
		{p.at, "/check", "X-Original-URI: //v1/./orders", "429 "},
		{p.at, "/check", "X-Original-URI: /%76%31/orders", "429 "},
		{p.at, "/check", "X-Original-URI: http://h/v1/orders", "429 "},
		{p.at, "/check", "X-Original-URI: /v1/%zz", "400 "},
		{p.at, "/check", "X-Original-URI: /V1/orders", "200"}, // letter case counts
	} {
		if got := get(c.at, c.target, c.line); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s with %s: %s; want %s", c.target, c.line, got, c.want)
		}
	}
	ask := func(method, body string) (answer string) {
		p.until(t, method+" reaches the store", func() bool {
			answer = call(p.at, "/aliquot.v1.LimiterService/"+method, "application/json", []byte(body))
			return !strings.HasPrefix(answer, "503 ")
		})
		return answer
	}
	reserve := func(key, namespace string) string {
		return ask("Reserve", fmt.Sprintf(`{"id":"guessed","namespace":%q,"attributes":{"api_key":%q,"plan":"big"}}`, namespace, key))
	}
	settle := func(namespace string) string {
		return ask("Settle", fmt.Sprintf(`{"id":"guessed","namespace":%q}`, namespace))
	}
	for i, c := range []struct{ got, want string }{
		{reserve("mine", "n"), "200 reserved"}, {settle("other"), "404 "}, {reserve("theirs", "n"), "200 reserved"}, {settle("n"), "404 "},
	} {
		if !strings.HasPrefix(c.got, c.want) {
			t.Errorf("reservation, step %d: %s; want %s", i, c.got, c.want)
		}
	}
	return fmt.Sprintf("%d of 16 with made-up users passed a limit of 8", passed)
}

// files looks for secrets and logs that others of this machine could read, and for commands that Redis refused the daemon.
func (p *peers) files(t *testing.T) string {
	seen := 0
	for _, root := range []string{p.nodes[0].dir, p.nodes[1].dir, p.nodes[2].dir, p.state} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it was replaced meanwhile
			}
			if info, err := d.Info(); err == nil {
				seen++
				if info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s has mode %v", path, info.Mode().Perm())
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	answer := onConnection(p.redisAt, redisSays("ACL LOG"))
	if answer != "*0" {
		t.Errorf("Redis refused the daemon something: %s", answer)
	}
	return fmt.Sprintf("%d files and folders", seen)
}

// decisions reads the ids of denials and what Explain says of them. Neither has the daemon's incarnation or session, with
// which a stranger could report in its place; and no number in an id ends the session.
func (p *peers) decisions(t *testing.T) string {
	incarnations := make(chan uint64, 1)
	to, err := url.Parse("http://" + p.nodes[0].at)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/Hello") {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			var hello aliquotv1.HelloRequest
			if proto.Unmarshal(body, &hello) == nil {
				select {
				case incarnations <- hello.GetIncarnation():
				default:
				}
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	defer relay.Close()
	_, at, ops := p.eu(t, "--coordinators", strings.TrimPrefix(relay.URL, "http://"), "--state-file", "none")
	p.until(t, "the region eu holds a lease", func() bool { return metricOf(ops, "aliquot_lease_remaining_seconds") > 0 })
	incarnation := <-incarnations
	if incarnation == 0 {
		t.Fatal("the daemon's Hello has no incarnation")
	}
	reports := 0
	for range 20 {
		var denial struct{ DecisionID string }
		p.until(t, "a denial has an id", func() bool {
			out, err := http.Post("http://"+at+"/aliquot.v1.LimiterService/Check", "application/json", strings.NewReader(`{"attributes":{"endpoint":"/v1/x"}}`))
			if err != nil {
				return false
			}
			defer out.Body.Close()
			return json.NewDecoder(out.Body).Decode(&denial) == nil && denial.DecisionID != ""
		})
		out, err := http.Post("http://"+at+"/aliquot.v1.LimiterService/Explain", "application/json", strings.NewReader(fmt.Sprintf(`{"decisionId":%q}`, denial.DecisionID)))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(out.Body)
		out.Body.Close()
		var explained struct{ Session string }
		if err := json.Unmarshal(text, &explained); out.StatusCode != http.StatusOK || err != nil || strings.Trim(explained.Session, "0") != "" {
			t.Errorf("Explain answers %s, %v: %s", out.Status, err, text)
		}
		for _, base := range []int{10, 16, 36} {
			if number := strconv.FormatUint(incarnation, base); strings.Contains(denial.DecisionID+string(text), number) {
				t.Errorf("%s and its explanation tell the incarnation, %s", denial.DecisionID, number)
			}
			for part := range strings.SplitSeq(denial.DecisionID, "-") {
				number, err := strconv.ParseUint(part, base, 64)
				if err != nil || number == 0 {
					continue
				}
				reports++
				answer := call(p.nodes[0].at, "/aliquot.v1.LeaseService/Report", "application/json",
					fmt.Appendf(nil, `{"region":"eu","epoch":"1","session":"%d","seq":"1000000"}`, number))
				if strings.HasPrefix(answer, "200") {
					t.Errorf("a report with the number %d of the id %s is taken", number, denial.DecisionID)
				}
			}
		}
	}
	if metricOf(ops, "aliquot_lease_remaining_seconds") <= 0 {
		t.Error("the region eu lost its lease")
	}
	return fmt.Sprintf("20 ids, %d reports by their numbers", reports)
}
