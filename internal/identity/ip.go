package identity

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

const (
	forwardedFor = "X-Forwarded-For"
	// maxHops of X-Forwarded-For are looked at, from the right; nobody has as many
	// proxies, and a client can send as many as the headers hold.
	maxHops = 32
	// groupBits: a client commonly has a whole /64 of IPv6 addresses to itself.
	groupBits = 64
)

func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is no network; give a CIDR like 10.0.0.0/8 or 2001:db8::/32, or one address", text)
	}
	if p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q: write an IPv4 network as such", text)
	}
	return p.Masked(), nil
}

// TrustsPeer reports whether the other end of a connection, as http.Request.RemoteAddr has
// it, is a trusted proxy, whose X-Forwarded-For, user and attribute headers are believed.
func (r *Rules) TrustsPeer(peer string) bool {
	ip, ok := parseHop(peer)
	return !ok || r.trusts(ip)
}

func (r *Rules) trusts(ip netip.Addr) bool {
	for _, p := range r.trusted {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// client is the client's address. Each proxy appends whom it heard the request from,
// so X-Forwarded-For is read from the right, for as long as what was heard from is a
// trusted proxy: what stands to the left of the first other address is that
// address's own word.
func (r *Rules) client(h http.Header, peer string) (netip.Addr, bool) {
	client, ok := parseHop(peer)
	if ok && !r.trusts(client) {
		return client, true
	}
	lines := h[forwardedFor]
	hops := 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var hop string
			hop, rest, more = cutLast(rest)
			ip, valid := parseHop(hop)
			if !valid || hops == maxHops {
				return client, ok
			}
			hops++
			client, ok = ip, true
			if !r.trusts(ip) {
				return client, true
			}
		}
	}
	return client, ok
}

// cutLast cuts off what stands behind the last comma, and reports whether there was
// one.
func cutLast(list string) (last, rest string, more bool) {
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		return list[i+1:], list[:i], true
	}
	return list, "", false
}

// parseHop reads an address with or without a port; an IPv4 address written as an
// IPv6 one is an IPv4 address, and zones, which mean nothing elsewhere, go.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if colon := strings.IndexByte(text, ':'); colon >= 0 && colon == strings.LastIndexByte(text, ':') {
		// No address has a single colon, so it is one with a port or nothing.
		ap, err := netip.ParseAddrPort(text)
		return ap.Addr().Unmap(), err == nil
	}
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a.Unmap().WithZone(""), true
	}
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}

// group is the attribute: an IPv4 address as it is, an IPv6 one's network.
func group(ip netip.Addr) string {
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, groupBits).Masked().String()
}
