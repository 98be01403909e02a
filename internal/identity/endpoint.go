package identity

import (
	"fmt"
	"net/url"
	"strings"
)

const upperHex = "0123456789ABCDEF"

// target splits a request target into the path, in the one form that all its spellings share, and
// the unchanged query. The host of an absolute URI is dropped. A target without a path ("*",
// host:port) stays unchanged.
func target(uri string) (path, query string, err error) {
	uri, _, _ = strings.Cut(uri, "#")
	uri, query, _ = strings.Cut(uri, "?")
	if scheme, rest, found := strings.Cut(uri, "://"); found && !strings.Contains(scheme, "/") {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return "/", query, nil
		}
		uri = rest[i:]
	}
	if !validEscapes(uri) {
		return "", "", fmt.Errorf("%w: the path has a percent sign that two hexadecimal digits do not follow; write %%25 for the sign itself", ErrInvalid)
	}
	if !strings.HasPrefix(uri, "/") {
		return unescape(uri), query, nil
	}
	return resolve(unescape(uri)), query, nil
}

// Spelled returns an endpoint that a caller names, and not a request target: its path in the one form that all
// its spellings share, and the path as the most permissive servers read it (DecodedEndpoint), or "". A percent
// sign that no escape begins with stands for itself. The query and the fragment are cut off.
//
// plain reports that this form is the endpoint itself, or that the endpoint is no path. Then the other results
// are empty, and nothing is allocated.
func Spelled(endpoint string) (path, permissive string, plain bool) {
	if !hasSpellings(endpoint) {
		return "", "", true
	}
	path, _, _ = strings.Cut(endpoint, "#")
	path, _, _ = strings.Cut(path, "?")
	if !validEscapes(path) {
		path = escapeSigns(path)
	}
	path = resolve(unescape(path))
	return path, decoded(path), false
}

// ordinary has the bytes that stand for themselves wherever they are in a path.
var ordinary = func() (o [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~" {
		o[c] = true
	}
	return o
}()

// hasSpellings reports whether unescape, resolve or decoded may change the path of an endpoint.
func hasSpellings(endpoint string) bool {
	if endpoint == "" || endpoint[0] != '/' {
		return false
	}
	for i := range len(endpoint) {
		switch c := endpoint[i]; {
		case ordinary[c]: // tells nearly every byte at once
		case c == '?' || c == '#':
			return false
		case c == '%' || c == ';' || c == '\\' || c <= ' ' || c >= 0x7f:
			return true
		case (c == '/' || c == '.') && i > 0 && endpoint[i-1] == '/':
			return true
		}
	}
	return false
}

// escapeSigns escapes the percent signs that two hexadecimal digits do not follow.
func escapeSigns(path string) string {
	var out strings.Builder
	for i := range len(path) {
		out.WriteByte(path[i])
		if path[i] == '%' && !validEscapes(path[i:min(i+3, len(path))]) {
			out.WriteString("25")
		}
	}
	return out.String()
}

// validEscapes reports whether two hexadecimal digits follow each percent sign.
func validEscapes(path string) bool {
	for i := strings.IndexByte(path, '%'); i >= 0; {
		if i+2 >= len(path) || fromHex(path[i+1]) < 0 || fromHex(path[i+2]) < 0 {
			return false
		}
		next := strings.IndexByte(path[i+3:], '%')
		if next < 0 {
			return true
		}
		i += 3 + next
	}
	return true
}

// decoded returns a path as the most permissive servers read it. Escapes are decoded, also those
// that contain escapes. Parameters of segments are cut off, a backslash becomes a slash, and the
// result is resolved. It returns "" if the result is the path itself.
func decoded(path string) string {
	if !strings.HasPrefix(path, "/") || !strings.ContainsAny(path, `%;\`) {
		return ""
	}
	out := path
	for range maxDecodings {
		next, err := url.PathUnescape(out)
		if err != nil || next == out {
			break
		}
		out = next
	}
	out = strings.ToValidUTF8(strings.ReplaceAll(out, `\`, "/"), "\uFFFD")
	segments := strings.Split(out, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	if out = resolve(strings.Join(segments, "/")); out == path {
		return ""
	}
	return out
}

// maxDecodings is how often a path is decoded: "%252F" becomes a slash after two servers in a row.
const maxDecodings = 3

// unescape decodes escapes that are not needed (RFC 3986, 6.2.2), escapes characters that need it,
// and leaves everything else: "/%76%31" becomes "/v1", and "%2f" stays an escape, "%2F", because it
// is not the same as a slash. The path must have validEscapes.
func unescape(path string) string {
	plain := true
	for i := 0; plain && i < len(path); i++ {
		plain = path[i] != '%' && path[i] > ' ' && path[i] < 0x7f
	}
	if plain {
		return path
	}
	out := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		escaped := c <= ' ' || c >= 0x7f
		if c == '%' {
			c = byte(fromHex(path[i+1])<<4 | fromHex(path[i+2]))
			i += 2
			escaped = !isUnreserved(c)
		}
		if escaped {
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

func fromHex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// resolve removes the segments "." and "..", and empty segments, as the servers behind the daemon
// do. So a client cannot escape a limit by another spelling of the path. A trailing slash stays.
func resolve(path string) string {
	if !strings.Contains(path, "//") && !strings.Contains(path, "/.") {
		return path
	}
	var kept []string
	segments := strings.Split(path, "/")
	for _, s := range segments {
		switch s {
		case "", ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, s)
		}
	}
	switch last := segments[len(segments)-1]; {
	case len(kept) == 0:
		return "/"
	case last == "" || last == "." || last == "..":
		return "/" + strings.Join(kept, "/") + "/"
	}
	return "/" + strings.Join(kept, "/")
}
