package identity

import (
	"strings"
)

const upperHex = "0123456789ABCDEF"

// target takes a request target apart: the path in the one form that all its
// spellings share, and the query as it is. An absolute URI's host is dropped; what
// has no path ("*", host:port) stays as it is.
func target(uri string) (path, query string) {
	uri, _, _ = strings.Cut(uri, "#")
	uri, query, _ = strings.Cut(uri, "?")
	if scheme, rest, found := strings.Cut(uri, "://"); found && !strings.Contains(scheme, "/") {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return "/", query
		}
		uri = rest[i:]
	}
	if !strings.HasPrefix(uri, "/") {
		return unescape(uri), query
	}
	return resolve(unescape(uri)), query
}

// unescape decodes what need not be escaped (RFC 3986, 6.2.2), escapes what must be, a
// percent sign that begins no escape included, and leaves everything else: "/%76%31" is
// "/v1", and "%2f" stays an escape, "%2F", for it is not the same as a slash.
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
		hi, lo := -1, -1
		if c == '%' && i+2 < len(path) {
			hi, lo = fromHex(path[i+1]), fromHex(path[i+2])
		}
		switch {
		case hi >= 0 && lo >= 0:
			c = byte(hi<<4 | lo)
			i += 2
			if !isUnreserved(c) {
				out = append(out, '%', upperHex[c>>4], upperHex[c&15])
				continue
			}
		case c <= ' ' || c >= 0x7f || c == '%':
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

// resolve removes "." and ".." segments and empty ones, as the servers behind do: a
// limit must not be passed by writing a path in another way. A trailing slash stays.
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
