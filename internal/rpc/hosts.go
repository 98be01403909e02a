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

// Hosts are the names by which a daemon may be asked. A web page whose name an attacker has
// pointed at the daemon's address (DNS rebinding) is asked for by another name, and must neither
// read nor change anything. Addresses are names of their own, and so are names that nobody can
// register in the public DNS: those without a dot, and those that end in localhost, local,
// internal or svc. The zero value allows these. Safe for concurrent use.
type Hosts struct{ names []string }

// NewHosts allows the machine's own name and the given ones beside those that are always allowed.
// Ports are left out; an empty name is passed over.
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

// privateSuffixes are of names that the public DNS does not have: RFC 6761, RFC 6762, ICANN's
// reservation of internal, and what a Kubernetes cluster resolves.
var privateSuffixes = []string{".localhost", ".local", ".internal", ".svc"}

// allows reports whether a Host header is one of the daemon's names. Without one (a unix socket, HTTP/1.0) it is.
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

// Browsers keeps web pages of others from asking: requests by a name that is none of hosts, and
// requests of another origin that could change something, are refused with 403. Programs other
// than browsers send no origin, and are asked for by the daemon's own name.
func Browsers(hosts Hosts, next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		forbid(w, "a web page of another origin may not ask this daemon")
	}))
	protected := origins.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hosts.allows(r.Host) {
			forbid(w, fmt.Sprintf("the host %.100q is no name of this daemon; if it is one, give it to --allow-host", r.Host))
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// forbid refuses a request, as a Connect client reads it.
func forbid(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": "permission_denied", "message": message})
}
