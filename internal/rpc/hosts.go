package rpc

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Hosts are the names under which clients may call a daemon. If an attacker points the name of a
// web page at the daemon's address (DNS rebinding), the page's requests have another name. They
// must neither read nor change anything. Addresses are always allowed, and so are names that cannot
// be registered in the public DNS: those without a dot, and those that end in localhost, local,
// internal or svc. The zero value allows only these. Safe for concurrent use.
type Hosts struct{ names []string }

// NewHosts returns Hosts that also allow this host's own name and the given names. It ignores ports
// and empty names.
func NewHosts(names ...string) Hosts {
	if own, err := os.Hostname(); err == nil {
		names = append(slices.Clone(names), own)
	}
	var h Hosts
	for _, name := range names {
		if name = strings.ToLower(strings.TrimSuffix(name, ".")); name != "" {
			h.names = append(h.names, name)
		}
	}
	return h
}

// privateSuffixes end names that the public DNS does not have: RFC 6761, RFC 6762, ICANN's
// reservation of internal, and the names that a Kubernetes cluster resolves.
var privateSuffixes = []string{".localhost", ".local", ".internal", ".svc"}

// allows reports whether a Host header is one of the daemon's names. An empty one (a unix socket,
// HTTP/1.0) is.
func (h Hosts) allows(host string) bool {
	name := host
	if without, _, err := net.SplitHostPort(host); err == nil {
		name = without
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
		return true
	}
	return slices.Contains(h.names, name) || slices.ContainsFunc(privateSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// Browsers protects a handler from other web pages. It answers 403 to requests under a name that is
// not in hosts, and to requests of another origin that could change something. Other programs than
// browsers send no origin and use the daemon's own name.
func Browsers(hosts Hosts, next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		forbid(w, "a web page of another origin may not ask this daemon")
	}))
	protected := origins.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hosts.allows(r.Host) {
			forbid(w, fmt.Sprintf("the host %.100q is not a name of this daemon; if it is one, give it to --allow-host", r.Host))
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// forbid refuses a request in the form that a Connect client reads.
func forbid(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": "permission_denied", "message": message})
}
