package identity

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

const (
	forwardedFor = "X-Forwarded-For"
	// maxHops is how many addresses of X-Forwarded-For are read, from the right. No installation
	// has as many proxies, but a client can send as many addresses as fit into the headers.
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
		return netip.Prefix{}, fmt.Errorf("%q is not a network; give a CIDR like 10.0.0.0/8 or 2001:db8::/32, or one address", text)
	}
	if p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q: write an IPv4 network as such", text)
	}
	return p.Masked(), nil
}

// TrustsPeer reports whether the other end of a connection, in the form of http.Request.RemoteAddr,
// is a trusted proxy. Its X-Forwarded-For, user and attribute headers count.
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

// client returns the address of the client of a trusted proxy, whose own address may be unknown. Each proxy appends the
// address from which it got the request. So X-Forwarded-For is read from the right, for as long as the addresses are trusted
// proxies. What is to the left of the first other address is only a claim of that address.
func (r *Rules) client(h http.Header, proxy netip.Addr) (client netip.Addr, ok bool) {
	client, ok = proxy, proxy.IsValid()
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

// cutLast splits a list at its last comma, and reports whether there is one.
func cutLast(list string) (last, rest string, more bool) {
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		return list[i+1:], list[:i], true
	}
	return list, "", false
}

// parseHop parses an address with or without a port. An IPv4 address in IPv6 notation becomes an
// IPv4 address. Zones are removed, because they mean nothing elsewhere.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if colon := strings.IndexByte(text, ':'); colon >= 0 && colon == strings.LastIndexByte(text, ':') {
		// No address has a single colon, so this is an address with a port, or invalid.
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

// group returns the attribute of an address: an IPv4 address unchanged, or the network of an IPv6
// address.
func group(ip netip.Addr) string {
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, groupBits).Masked().String()
}
