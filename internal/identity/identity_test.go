package identity

import (
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func rules(t testing.TB, change func(*Config)) *Rules {
	t.Helper()
	c := DefaultConfig()
	if change != nil {
		change(&c)
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// headers are "Name: value" lines.
func headers(lines ...string) http.Header {
	h := http.Header{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	return h
}

// token is an unsigned JWT of these claims.
func token(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func mapped(c *Config) {
	c.AttributeHeaders = []string{"X-Tier=tier", "X-Org=org", "jwt:plan=plan", "X-Tokens=costs.tokens", "X-Bytes=costs.bytes"}
}

func TestCostsFromHeaders(t *testing.T) {
	r := rules(t, mapped)
	got, err := r.Mapped(Request{Peer: "127.0.0.1:1", Header: headers("X-Tokens: 500", "X-Bytes: 7", "X-Tier: pro")})
	if err != nil || !slices.Equal(got.Costs, []Cost{{"bytes", 7}, {"tokens", 500}}) || !slices.Equal(got.Attributes, []Attribute{{"tier", "pro"}}) {
		t.Errorf("%+v, %v", got, err)
	}
	for in, says := range map[string]string{
		"X-Tokens: 0":                          "the header X-Tokens is the cost of the unit tokens; send a whole number of at least 1, or none",
		"X-Tokens: secret":                     "send a whole number",
		"X-Tier: " + strings.Repeat("t", 4097): "the header X-Tier has 4097 bytes; at most 4096 of UTF-8 are allowed",
		"X-Tier: \xff":                         "at most 4096 of UTF-8",
	} {
		if got, err := r.Mapped(Request{Header: headers(in)}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.20s: %+v, %v", in, got, err)
		}
	}
	if _, err := r.Mapped(Request{Header: headers("X-Tier: pro", "X-Tier: gold")}); !errors.Is(err, ErrInvalid) {
		t.Errorf("two tiers: %v", err)
	}
}

func TestUnbelievedHeaders(t *testing.T) {
	r := rules(t, mapped)
	for in, want := range map[string]string{"X-Tier: pro": "X-Tier", "X-User-Id: a": "X-User-Id", "X-Forwarded-For: 192.0.2.1": "X-Forwarded-For", "X-API-Key: k": ""} {
		if got := r.Unbelieved(headers(in)); got != want {
			t.Errorf("%s: %q", in, got)
		}
	}
}

func TestAttributes(t *testing.T) {
	everywhere := func(c *Config) { c.APIKeyFrom = []string{"header:X-Key", "query:key", "jwt:sub", "bearer"} }
	for _, c := range []struct {
		name   string
		change func(*Config)
		in     Request
		want   map[string]string
	}{
		{"nothing but an address", nil, Request{Method: "GET", URI: "/v1/orders?x=1", Peer: "203.0.113.7:4711"},
			map[string]string{"api_key": "ip:203.0.113.7", "ip": "203.0.113.7", "endpoint": "/v1/orders", "method": "GET"}},
		{"a user comes before the address", nil, Request{Method: "GET", URI: "/", Peer: "127.0.0.1:1", Header: headers("X-User-Id: alice", "X-Forwarded-For: 203.0.113.7")},
			map[string]string{"api_key": "user:alice", "user": "alice", "ip": "203.0.113.7", "endpoint": "/", "method": "GET"}},
		{"a key comes before the user", nil, Request{Method: "PUT", URI: "/", Peer: "127.0.0.1:1", Header: headers("X-User-Id: alice", "X-API-Key: k", "Authorization: Bearer k")},
			map[string]string{"api_key": "k", "user": "alice", "ip": "127.0.0.1", "endpoint": "/", "method": "PUT"}},
		{"a user is a trusted proxy's word alone", nil, Request{Method: "PUT", URI: "/", Peer: "203.0.113.7:1", Header: headers("X-User-Id: alice", "X-User-Id: bob")},
			map[string]string{"api_key": "ip:203.0.113.7", "ip": "203.0.113.7", "endpoint": "/", "method": "PUT"}},
		{"an attribute header", mapped, Request{Method: "GET", URI: "/", Peer: "127.0.0.1:1", Header: headers("X-Tier: pro", "X-Org:", "X-Tokens: 5", "Authorization: Bearer a.eyJwbGFuIjoiZ29sZCJ9.c")},
			map[string]string{"api_key": "a.eyJwbGFuIjoiZ29sZCJ9.c", "tier": "pro", "plan": "gold", "ip": "127.0.0.1", "endpoint": "/", "method": "GET"}},
		{"an attribute header is a trusted proxy's word alone", mapped, Request{Method: "GET", URI: "/", Peer: "203.0.113.7:1", Header: headers("X-Tier: pro", "X-Tier: gold", "X-Tokens: 5")},
			map[string]string{"api_key": "ip:203.0.113.7", "ip": "203.0.113.7", "endpoint": "/", "method": "GET"}},
		{"a bearer token is a key", nil, Request{Method: "GET", URI: "/", Header: headers("Authorization: bearer  t.o.k ")},
			map[string]string{"api_key": "t.o.k", "endpoint": "/", "method": "GET"}},
		{"other schemes are not", nil, Request{Method: "GET", URI: "/", Header: headers("Authorization: Basic YTpi")},
			map[string]string{"endpoint": "/", "method": "GET"}},
		{"a header of another name", everywhere, Request{Method: "GET", URI: "/?key=h", Header: headers("X-Key: h", "X-API-Key: other")},
			map[string]string{"api_key": "h", "endpoint": "/", "method": "GET"}},
		{"the query", everywhere, Request{Method: "GET", URI: "/a?b=%zz&key=q%20q", Header: headers("X-API-Key: other")},
			map[string]string{"api_key": "q q", "endpoint": "/a", "method": "GET"}},
		{"a claim", everywhere, Request{Method: "GET", URI: "/", Header: headers("Authorization: Bearer " + token(`{"sub":"alice","exp":1}`))},
			map[string]string{"api_key": "alice", "endpoint": "/", "method": "GET"}},
		{"a numeric claim", everywhere, Request{Method: "GET", URI: "/", Header: headers("Authorization: Bearer " + token(`{"sub": 9007199254740993}`))},
			map[string]string{"api_key": "9007199254740993", "endpoint": "/", "method": "GET"}},
		{"a claim that is no value", func(c *Config) { c.APIKeyFrom = []string{"jwt:sub"} },
			Request{Method: "GET", URI: "/", Header: headers("Authorization: Bearer " + token(`{"sub":["a"]}`))},
			map[string]string{"endpoint": "/", "method": "GET"}},
		{"a token that is no JWT", func(c *Config) { c.APIKeyFrom = []string{"jwt:sub"} },
			Request{Method: "GET", URI: "/", Header: headers("Authorization: Bearer a.%.c")},
			map[string]string{"endpoint": "/", "method": "GET"}},
		{"a key that looks like another client", nil, Request{Method: "GET", URI: "/", Header: headers("X-API-Key: ip:203.0.113.7")},
			map[string]string{"api_key": "key:ip:203.0.113.7", "endpoint": "/", "method": "GET"}},
		{"a key that looks like that", nil, Request{Method: "GET", URI: "/", Header: headers("X-API-Key: key:ip:203.0.113.7")},
			map[string]string{"api_key": "key:key:ip:203.0.113.7", "endpoint": "/", "method": "GET"}},
		{"no header for users", func(c *Config) { c.UserHeader = "" }, Request{Method: "GET", URI: "/", Header: headers("X-User-Id: alice")},
			map[string]string{"endpoint": "/", "method": "GET"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := rules(t, c.change).Attributes(c.in)
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	const secret = "sk_secret"
	r := rules(t, func(c *Config) { c.APIKeyFrom = append(c.APIKeyFrom, "query:key") })
	for name, in := range map[string]Request{
		"two keys":                {Header: headers("X-API-Key: "+secret, "X-API-Key: "+secret)},
		"two tokens":              {Header: headers("Authorization: Bearer "+secret, "Authorization: Bearer x")},
		"two users":               {Header: headers("X-User-Id: "+secret, "X-User-Id: b")},
		"two keys in the query":   {URI: "/?key=" + secret + "&key=" + secret},
		"a key that is too long":  {Header: headers("X-API-Key: " + secret + strings.Repeat("k", 4096))},
		"a key that is not UTF-8": {Header: headers("X-API-Key: " + secret + "\xff")},
		"a long path":             {URI: "/" + secret + strings.Repeat("p", 4096)},
		"a method not UTF-8":      {Method: secret + "\xff"},
	} {
		if got, err := r.Attributes(in); !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"cookie:a":         func(c *Config) { c.APIKeyFrom = []string{"cookie:a"} },
		"header:":          func(c *Config) { c.APIKeyFrom = []string{"header:"} },
		"header:a b":       func(c *Config) { c.APIKeyFrom = []string{"header:a b"} },
		"query":            func(c *Config) { c.APIKeyFrom = []string{"query"} },
		"jwt:":             func(c *Config) { c.APIKeyFrom = []string{"jwt:"} },
		"bearer:x":         func(c *Config) { c.APIKeyFrom = []string{"bearer:x"} },
		`"X-Tier": write`:  func(c *Config) { c.AttributeHeaders = []string{"X-Tier"} },
		"=tier":            func(c *Config) { c.AttributeHeaders = []string{"=tier"} },
		"jwt:=tier":        func(c *Config) { c.AttributeHeaders = []string{"jwt:=tier"} },
		"X=costs.":         func(c *Config) { c.AttributeHeaders = []string{"X=costs."} },
		"X=api_key":        func(c *Config) { c.AttributeHeaders = []string{"X=api_key"} },
		"X=costs.requests": func(c *Config) { c.AttributeHeaders = []string{"X=costs.requests"} },
		"Y=tier":           func(c *Config) { c.AttributeHeaders = []string{"X=tier", "Y=tier"} },
		"33 attribute":     func(c *Config) { c.AttributeHeaders = make([]string, 33) },
		"X User":           func(c *Config) { c.UserHeader = "X User" },
		"10.0.0.0/33":      func(c *Config) { c.TrustedProxies = []string{"10.0.0.0/33"} },
		"proxy.local":      func(c *Config) { c.TrustedProxies = []string{"proxy.local"} },
		"::ffff:0:0/96": func(c *Config) {
			c.TrustedProxies = []string{"::ffff:0:0/96"}
		},
	} {
		c := DefaultConfig()
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClientAddress(t *testing.T) {
	r := rules(t, func(c *Config) { c.TrustedProxies = []string{"127.0.0.1", "::1", "10.0.0.0/8", "2001:db8:ffff::/48"} })
	thousand := strings.TrimSuffix(strings.Repeat("198.51.100.1, ", 1000), ", ")
	proxies := strings.TrimSuffix(strings.Repeat("10.0.0.1,", 1000), ",")
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "203.0.113.7:1", nil, "203.0.113.7"},
		{"a stranger's word", "203.0.113.7:1", []string{"198.51.100.1"}, "203.0.113.7"},
		{"one proxy", "127.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"two", "127.0.0.1:1", []string{"198.51.100.1, 10.1.1.1"}, "198.51.100.1"},
		{"two lines", "127.0.0.1:1", []string{"198.51.100.1", "10.1.1.1"}, "198.51.100.1"},
		{"what the client wrote before", "127.0.0.1:1", []string{"6.6.6.6, 198.51.100.1, 10.1.1.1"}, "198.51.100.1"},
		{"and on a line before", "127.0.0.1:1", []string{"10.6.6.6", "198.51.100.1"}, "198.51.100.1"},
		{"proxies only", "127.0.0.1:1", []string{"10.2.2.2, 10.1.1.1"}, "10.2.2.2"},
		{"ports", "[::1]:1", []string{"198.51.100.1:80, [2001:db8:ffff::1]:443"}, "198.51.100.1"},
		{"IPv4 in IPv6", "[::ffff:127.0.0.1]:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"a /64 is one client", "127.0.0.1:1", []string{"2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"},
		{"a zone", "127.0.0.1:1", []string{"fe80::1%eth0"}, "fe80::/64"},
		{"rubbish", "127.0.0.1:1", []string{"198.51.100.1, unknown, 10.1.1.1"}, "10.1.1.1"},
		{"nothing in it", "127.0.0.1:1", []string{""}, "127.0.0.1"},
		{"a thousand hops", "127.0.0.1:1", []string{"6.6.6.6, " + thousand}, "198.51.100.1"},
		{"a thousand proxies", "127.0.0.1:1", []string{"6.6.6.6, " + proxies}, "10.0.0.1"},
		{"a unix socket", "@", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a unix socket and nothing", "", nil, ""},
	} {
		h := http.Header{}
		for _, f := range c.forwarded {
			h.Add("X-Forwarded-For", f)
		}
		got, err := r.Attributes(Request{Header: h, Peer: c.peer})
		if err != nil || got["ip"] != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got["ip"], err, c.want)
		}
	}
	if !r.TrustsPeer("10.2.3.4:5") || r.TrustsPeer("192.0.2.1:5") || !r.TrustsPeer("@") {
		t.Error("TrustsPeer")
	}
}

func TestEndpointHasOneSpelling(t *testing.T) {
	for in, want := range map[string]string{
		"/v1/orders":                      "/v1/orders",
		"/v1/orders?next=/x":              "/v1/orders",
		"/v1/orders#x?y":                  "/v1/orders",
		"/%76%31/%6Frders":                "/v1/orders",
		"/a%2fb%2F%25zz":                  "/a%2Fb%2F%25zz",
		"//v1///orders/":                  "/v1/orders/",
		"/x/../v1/./orders":               "/v1/orders",
		"/x/%2e%2E/v1/.":                  "/v1/",
		"/../..":                          "/",
		"/..a/.b":                         "/..a/.b",
		"/caf\xc3\xa9/\xff ":              "/caf%C3%A9/%FF%20",
		"http://example.com/v1?x=1":       "/v1",
		"http://example.com?x=1":          "/",
		"/v1/http://example.com/x":        "/v1/http:/example.com/x",
		"*":                               "*",
		"example.com:443":                 "example.com:443",
		"":                                "",
		"/" + strings.Repeat("../a/", 99): "/a/",
	} {
		got, _, err := target(in)
		if got != want || err != nil {
			t.Errorf("%q: %q, want %q; %v", in, got, want, err)
		}
		if again, _, _ := target(got); again != got {
			t.Errorf("%q: %q becomes %q", in, got, again)
		}
	}
	for _, in := range []string{"/%", "/%z", "/a%4", "/%zz", "/%d%66", "/%25%", "%"} {
		if got, _, err := target(in); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "write %25") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// A path has a second spelling where a server may decode it further.
func TestDecodedEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"/v1/orders":            "",
		"/v1%2Forders":          "/v1/orders",
		"/v1%252Forders":        "/v1/orders",
		"/v1;a=b/orders;c":      "/v1/orders",
		`/v1\orders`:            "/v1/orders",
		"/v1%5Corders":          "/v1/orders",
		"/x/..%2Fv1/orders":     "/v1/orders",
		"/x%2F..;/v1%2F/orders": "/v1/orders",
		"/caf\xc3\xa9":          "/caf\u00e9",
		"/%FF":                  "/\ufffd",
		"*":                     "",
	} {
		path, _, err := target(in)
		if got := decoded(path); got != want || err != nil {
			t.Errorf("%q: %q, want %q; %v", in, got, want, err)
		}
	}
}

// Two keys that differ are refused wherever they come from: a client could hide behind the one.
func TestTwoKeysThatDiffer(t *testing.T) {
	for _, c := range []struct {
		from   []string
		uri    string
		header http.Header
		says   string // empty: no error
	}{
		{nil, "/", headers("X-API-Key: made-up", "Authorization: Bearer real"), "the header X-API-Key and the bearer token have different API keys; send one, or name the one that counts alone in --api-key-from"},
		{nil, "/", headers("X-API-Key: same", "Authorization: Bearer same"), ""},
		{nil, "/", headers("X-API-Key: k", "Authorization: Basic YTpi"), ""},
		{[]string{"header"}, "/", headers("X-API-Key: k", "Authorization: Bearer other"), ""},
		{[]string{"bearer", "query:key"}, "/?key=q", headers("Authorization: Bearer t"), "the bearer token and the query parameter key have different"},
		{[]string{"jwt:sub", "bearer"}, "/", headers("Authorization: Bearer " + token(`{"sub":"alice"}`)), ""},
	} {
		r := rules(t, func(to *Config) {
			if c.from != nil {
				to.APIKeyFrom = c.from
			}
		})
		_, err := r.Attributes(Request{Method: "GET", URI: c.uri, Header: c.header})
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: %v", c.header, err)
		}
	}
}

func FuzzAttributes(f *testing.F) {
	f.Add("/v1/%6frders?key=a", "198.51.100.1, 10.0.0.1", "Bearer a.e30.c", "sk", "127.0.0.1:1")
	f.Add("http://h/%", "::ffff:1.2.3.4,[::1]:2", "bearer ", "ip:1", "@")
	r := rules(f, func(c *Config) { c.APIKeyFrom = []string{"header", "query:key", "jwt:sub", "bearer"} })
	f.Fuzz(func(t *testing.T, uri, forwarded, authorization, key, peer string) {
		h := http.Header{"X-Forwarded-For": {forwarded}, "Authorization": {authorization}, "X-Api-Key": {key}}
		out, err := r.Attributes(Request{Header: h, Peer: peer, Method: "GET", URI: uri})
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if again, _, _ := target(out[Endpoint]); again != out[Endpoint] {
			t.Errorf("endpoint %q becomes %q", out[Endpoint], again)
		}
		if strings.Contains(out[Endpoint], "?") || strings.HasPrefix(out[Endpoint], "/") && strings.Contains(out[Endpoint]+"/", "/../") {
			t.Errorf("endpoint %q", out[Endpoint])
		}
		if key := out[APIKey]; strings.HasPrefix(key, ipPrefix) && key != ipPrefix+out[IP] {
			t.Errorf("api_key %q of a client at %q", key, out[IP])
		}
	})
}

// TestAnEndpointThatACallerNames has the spellings of a request target, and is as often plain as it can be.
func TestAnEndpointThatACallerNames(t *testing.T) {
	for _, in := range []string{
		"/%76%31/%6Frders?x=1", "//v1///orders/", "/x/../v1/./orders#x", "/x/%2e%2E/v1/.", "/v1%252Forders", "/v1;a=b/orders;c", `/v1\orders`, "/caf\u00e9 ",
	} {
		want, _, err := target(in)
		if path, permissive, plain := Spelled(in); path != want || permissive != decoded(want) || plain || err != nil {
			t.Errorf("%q: %q and %q, plain %t; a target is %q and %q, %v", in, path, permissive, plain, want, decoded(want), err)
		}
	}
	for in, want := range map[string][2]string{"/a/%zz%": {"/a/%25zz%25", "/a/%zz%"}, "//100%/x%2": {"/100%25/x%252", "/100%/x%2"}} {
		if path, permissive, _ := Spelled(in); path != want[0] || permissive != want[1] {
			t.Errorf("%q: %q and %q, want %q", in, path, permissive, want)
		}
	}
	for _, in := range []string{"", "/", "/v1/orders", "/v1.2/a.b/~c", "/v1?next=//x/../%2F", "/v1#;", "POST //x", "%2Fv1", "*", "http://host/v1"} {
		if path, permissive, plain := Spelled(in); path != "" || permissive != "" || !plain {
			t.Errorf("%q: %q and %q, plain %t", in, path, permissive, plain)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Spelled("/v1/orders/17?next=//x") }); n > 0 {
		t.Errorf("%v allocations for an ordinary path", n)
	}
}
