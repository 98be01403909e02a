package rpc

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestBrowsers: a page that was rebound to the daemon's address, and a page of another origin,
// are refused; programs are not.
func TestBrowsers(t *testing.T) {
	served := Browsers(NewHosts("coordinator.example.com"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	for _, c := range []struct {
		name, method, host, origin, site string
		want                             int
	}{
		{"curl", "PUT", "127.0.0.1:7400", "", "", 204},
		{"an IPv6 address", "POST", "[::1]:7400", "", "", 204},
		{"an address without a port", "POST", "::1", "", "", 204},
		{"a container", "POST", "c1:7400", "", "", 204},
		{"Kubernetes", "POST", "c1.aliquot.svc.cluster.local:7400", "", "", 204},
		{"Kubernetes, short", "POST", "c1.aliquot.svc:7400", "", "", 204},
		{"a name that was given", "POST", "Coordinator.example.com.:7400", "", "", 204},
		{"a unix socket", "POST", "", "", "", 204},
		{"the daemon's own page", "POST", "localhost:7400", "http://localhost:7400", "same-origin", 204},
		{"a rebound page", "PUT", "evil.example:7400", "http://evil.example:7400", "", 403},
		{"a rebound page that reads", "GET", "evil.example:7400", "", "", 403},
		{"a name that looks like a private one", "GET", "svc.evil.example:7400", "", "", 403},
		{"another origin", "PUT", "127.0.0.1:7400", "http://evil.example", "", 403},
		{"another site", "POST", "localhost:7400", "http://evil.example", "cross-site", 403},
	} {
		r := httptest.NewRequest(c.method, "/rules/tier/pro", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		served.ServeHTTP(w, r)
		if w.Code != c.want || c.want == 403 && !strings.Contains(w.Body.String(), `"code":"permission_denied"`) {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.want)
		}
	}
}
