package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// proxyRules are small and exact: each region alone, hardly any refill.
const proxyRules = `
defaults: {enforcement: independent}
rules:
  - {id: per-key, params: {capacity: 3, refill_rate: 0.01}}
  - {id: orders, match: {endpoint_regex: "^/orders", attributes: {method: POST}}, params: {capacity: 1, refill_rate: 0.01}}
  - {id: users, match: {attributes: {user: "?*"}}, key: [user], params: {capacity: 1, refill_rate: 0.01}}
blacklist: ["sk_revoked_*"]
`

// service is what the proxies protect; it echoes a body.
func service(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s ", r.Method, r.URL.Path)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// limitedDev is `aliquot dev` with proxyRules, and the address of one of its regions.
func limitedDev(t *testing.T) (*Process, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(proxyRules), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startDev(t, "--coordinators", "1", "--rules", file)
	example := curl.FindStringSubmatch(p.Tail())
	if example == nil {
		t.Fatalf("no example in\n%s", p.Tail())
	}
	at, err := url.Parse(example[1])
	if err != nil {
		t.Fatal(err)
	}
	return p, at.Host
}

// proxy is what clients ask: one that stands in front of service, or a service with
// the middleware in it.
type proxy struct{ base string }

// configured is the example's configuration for other addresses, as a file.
func configured(t *testing.T, example, region, port string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "examples", example))
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"127.0.0.1:7500": region, "127.0.0.1:9000": service(t), ":8080": ":" + port} {
		if strings.Count(string(text), from) != 1 {
			t.Fatalf("%s has not one %s", example, from)
		}
		text = []byte(strings.ReplaceAll(string(text), from, to))
	}
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// exampleService builds the program client/example.
func exampleService(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "example")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../client/example").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// freePort is free now.
func freePort(t *testing.T) string {
	t.Helper()
	free, err := FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return free[0]
}

// startProxy runs a command and waits until it listens.
func startProxy(t *testing.T, port string, argv ...string) proxy {
	t.Helper()
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Fatalf("%s is not in PATH; `make test` installs it", argv[0])
	}
	process := NewProcess(t.TempDir(), filepath.Base(argv[0]), argv...)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Kill9(); err != nil || t.Failed() {
			t.Logf("%v\n%s", err, process.Tail())
		}
	})
	err := Until(t.Context(), ReadyWithin, "listening", func() error {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
		} else if !process.Running() {
			return errors.New(process.Tail())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return proxy{base: "http://127.0.0.1:" + port}
}

// send sends a request with headers, "Name: value".
func (p proxy) send(t *testing.T, method, path, body string, lines ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, p.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		request.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// passes is the status of what the service answers.
const passes = 0

// step is a request through a proxy and what has to come of it.
type step struct {
	name, method, path string
	lines              []string
	status             int
	headers            map[string]string // "*": any value; "": none
}

func TestProxies(t *testing.T) {
	t.Parallel()
	dev, region := limitedDev(t)
	for _, c := range []struct {
		name    string
		command func(port string) []string
		// passes, unreadable and alone are the statuses of a request that passes, of
		// one that the region cannot read, and of any while no region answers.
		passes, unreadable, alone int
		echo                      bool // the service behind answers with the body
	}{
		{"nginx", func(port string) []string {
			config := configured(t, "nginx/nginx.conf", region, port)
			return []string{"nginx", "-p", filepath.Dir(config), "-c", config, "-e", "stderr", "-g", "daemon off; master_process off;"}
		}, 201, 429, 201, true},
		{"caddy", func(port string) []string {
			return []string{"caddy", "run", "--adapter", "caddyfile", "--config", configured(t, "caddy/Caddyfile", region, port)}
		}, 201, 400, 502, true},
		{"go", func(port string) []string {
			return []string{exampleService(t), "-listen", "127.0.0.1:" + port, "-region", region}
		}, 200, 400, 200, false},
	} {
		port := freePort(t)
		p := startProxy(t, port, c.command(port)...)
		id := c.name // clients of its own
		for _, s := range []step{
			{"a first request", "GET", "/a?x=1", []string{"X-API-Key: " + id}, passes, map[string]string{
				"X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "2", "X-RateLimit-Reset": "*", "RateLimit": "*", "RateLimit-Policy": "*", "Retry-After": "", "X-RateLimit-Policy": ""}},
			{"one with a body", "PUT", "/a", []string{"X-API-Key: " + id}, passes, map[string]string{"X-RateLimit-Remaining": "1"}},
			{"an order", "POST", "/orders/1?x", []string{"X-API-Key: " + id}, passes, map[string]string{"X-RateLimit-Remaining": "0"}},
			{"one too many", "GET", "/a", []string{"X-API-Key: " + id}, 429, map[string]string{
				"X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "0", "Retry-After": "*", "X-Decision-Id": "*", "X-RateLimit-Problem": "quota-exceeded", "Content-Type": "application/problem+json"}},
			{"a blocked client", "GET", "/a", []string{"X-API-Key: sk_revoked_1"}, 429, map[string]string{
				"Retry-After": "", "X-RateLimit-Limit": "", "X-Decision-Id": "*", "X-RateLimit-Problem": "abnormal-usage-detected"}},
			{"another client's order", "POST", "/orders", []string{"Authorization: Bearer " + id + "2"}, passes, map[string]string{"X-RateLimit-Limit": "1"}},
			{"a second one, spelt otherwise and denied by the client itself", "POST", "/x/..//%6frders", []string{"Authorization: Bearer " + id + "2",
				"X-Original-URI: /a", "X-Forwarded-Uri: /a", "X-Original-Method: GET", "X-Forwarded-Method: GET"}, 429, map[string]string{"X-RateLimit-Limit": "1"}},
			{"a client that names itself", "GET", "/a", []string{"X-API-Key: " + id + "3", "X-User-Id: u"}, passes, map[string]string{"X-RateLimit-Limit": "3"}},
			{"what cannot be read", "GET", "/a", []string{"X-API-Key: " + strings.Repeat("k", 5000)}, c.unreadable, nil},
		} {
			resp, body := p.send(t, s.method, s.path, "the body", s.lines...)
			want := s.status
			if want == passes {
				want = c.passes
			}
			if resp.StatusCode != want {
				t.Errorf("%s: %s: %s %v %s", c.name, s.name, resp.Status, resp.Header, body)
			}
			for name, want := range s.headers {
				if got := strings.Join(resp.Header.Values(name), "|"); got != want && !(want == "*" && got != "" && !strings.Contains(got, "|")) {
					t.Errorf("%s: %s: %s is %q, want %q", c.name, s.name, name, got, want)
				}
			}
			if s.status == passes && c.echo && !strings.HasSuffix(body, " the body") || s.status == 429 && !strings.Contains(body, `"status":429`) {
				t.Errorf("%s: %s: body %s", c.name, s.name, body)
			}
		}
		defer func() {
			if resp, body := p.send(t, "GET", "/a", "", "X-API-Key: "+id); resp.StatusCode != c.alone {
				t.Errorf("%s: without a region: %s %s", c.name, resp.Status, body)
			}
		}()
	}
	if err := dev.Kill9(); err != nil {
		t.Fatal(err)
	}
}

// TestProxiesWhereNothingIsKnown: while the region knows no limits, clients behind a proxy hear 503 and when to
// come again, and the service is not reached.
func TestProxiesWhereNothingIsKnown(t *testing.T) {
	t.Parallel()
	ports, err := FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	region := "127.0.0.1:" + ports[0]
	startProxy(t, ports[0], filepath.Join(bin, "regional"), "--region", "here", "--coordinators", "127.0.0.1:1", "--state-file", "none",
		"--listen", region, "--grpc-listen", "127.0.0.1:"+ports[1], "--ops-listen", "127.0.0.1:"+ports[2])
	for _, c := range []struct {
		name    string
		command func(port string) []string
	}{
		{"nginx", func(port string) []string {
			config := configured(t, "nginx/nginx.conf", region, port)
			return []string{"nginx", "-p", filepath.Dir(config), "-c", config, "-e", "stderr", "-g", "daemon off; master_process off;"}
		}},
		{"caddy", func(port string) []string {
			return []string{"caddy", "run", "--adapter", "caddyfile", "--config", configured(t, "caddy/Caddyfile", region, port)}
		}},
	} {
		port := freePort(t)
		p := startProxy(t, port, c.command(port)...)
		resp, body := p.send(t, "GET", "/a", "", "X-API-Key: k")
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || resp.Header.Get("X-RateLimit-Problem") != "temporary-reduced-capacity" ||
			resp.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, `#temporary-reduced-capacity"`) || !strings.Contains(body, `"status":503`) {
			t.Errorf("%s: %s %v %s", c.name, resp.Status, resp.Header, body)
		}
	}
}
