package api

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"aliquot/proto/aliquot/v1/aliquotv1connect"
)

// slowRule refills so slowly that no second of a test shows.
const slowRule = "defaults: {enforcement: independent}\nrules: [{id: r0, params: {capacity: 10, refill_rate: 0.0001}}]\n"

// sent returns what the service answers a peer on loopback.
func sent(s *Service, method, path, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:9"
	r.Header.Set("Content-Type", kind)
	r.Header.Set("X-API-Key", "k")
	w := httptest.NewRecorder()
	s.HTTP().ServeHTTP(w, r)
	return w
}

// TestCheckInJSONHasTheHeadersOfAProxysCheck, whether it passes or not; a generated client has none.
func TestCheckInJSONHasTheHeadersOfAProxysCheck(t *testing.T) {
	s := serviceOf(t, slowRule)
	told := func(h http.Header) []string {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(h)) {
			if strings.Contains(name, "Ratelimit") || name == "Retry-After" || name == "X-Decision-Id" {
				names = append(names, name)
			}
		}
		return names
	}
	const path, json = aliquotv1connect.LimiterServiceCheckProcedure, "application/json"
	for _, c := range []struct{ query, body string }{
		{"", `{"attributes":{"api_key":"k"}}`},
		{"?cost=9", `{"attributes":{"api_key":"k"},"cost":9}`},
		{"?cost=11", `{"attributes":{"api_key":"k"},"cost":11}`},
	} {
		rpc, proxy := sent(s, "POST", path, json, c.body), sent(s, "GET", checkPath+c.query, "", "")
		if got, want := told(rpc.Header()), told(proxy.Header()); rpc.Code != 200 || len(want) < 4 || !slices.Equal(got, want) {
			t.Errorf("%s: %d %v, want %v", c.body, rpc.Code, got, want)
		}
		if got, want := rpc.Header().Get("X-RateLimit-Limit"), "10"; got != want {
			t.Errorf("%s: a limit of %s", c.body, got)
		}
	}
	if got := told(sent(s, "POST", path, "application/proto", "\x0a\x0c\x0a\x07api_key\x12\x01k").Header()); len(got) > 0 {
		t.Errorf("a generated client has %v", got)
	}
}
