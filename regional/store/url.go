package store

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// manyHosts are the parts of a URL that names several servers:
// scheme+kind://[user:password@]host:port[,host:port...][/...][?...].
type manyHosts struct {
	scheme string // redis or rediss
	user   string // with its @, or empty
	hosts  []string
	tail   string // from the first / or ? on
}

// parseHosts reads such a URL. It returns false if the URL is not of the kind.
func parseHosts(redisURL, kind string) (m manyHosts, ok bool) {
	scheme, rest, _ := strings.Cut(redisURL, "://")
	m.scheme, ok = strings.CutSuffix(scheme, "+"+kind)
	if !ok || m.scheme != "redis" && m.scheme != "rediss" {
		return m, false
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		authority, m.tail = rest[:end], rest[end:]
	}
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		m.user, authority = authority[:at+1], authority[at+1:]
	}
	m.hosts = strings.Split(authority, ",")
	return m, true
}

// isKind reports whether a URL is of the given kind of URLs with several servers.
func isKind(redisURL, kind string) bool {
	_, ok := parseHosts(redisURL, kind)
	return ok
}

// IsCluster reports whether a URL is that of a Redis Cluster.
func IsCluster(redisURL string) bool { return isKind(redisURL, "cluster") }

// IsSentinel reports whether a URL is that of a Redis whose primary the Sentinels name.
func IsSentinel(redisURL string) bool { return isKind(redisURL, "sentinel") }

// CheckURL returns an error if a store's URL of any kind is wrong. It dials nothing. Its errors do
// not show the URL, which may hold a password.
func CheckURL(redisURL string) error {
	c := DefaultRedisConfig(redisURL)
	var err error
	switch {
	case IsCluster(redisURL):
		_, _, err = clusterOptions(c)
	case IsSentinel(redisURL):
		_, _, err = sentinelOptions(c)
	default:
		_, err = redisOptions(c)
	}
	return err
}

// WithPassword returns a store's URL of any kind with a password in it. A URL that has one is an
// error.
func WithPassword(redisURL, password string) (string, error) {
	scheme, rest, ok := strings.Cut(redisURL, "://")
	if !ok {
		return "", errors.New("store: the Redis URL has no scheme; write redis://HOST:PORT")
	}
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	user := ""
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, authority = authority[:at], authority[at+1:]
		if strings.Contains(user, ":") {
			return "", errors.New("store: the Redis URL has a password already; leave one of the two out")
		}
	}
	return scheme + "://" + user + url.UserPassword("", password).String() + "@" + authority + tail, nil
}

// errHost: the text is not a host with a port, or is empty.
var errHost = errors.New("not host:port")

// withPort returns host with the given port appended if it names none.
func withPort(host, port string) (string, error) {
	if host == "" {
		return "", errHost
	}
	if _, named, err := net.SplitHostPort(host); err == nil {
		if named == "" || strings.HasPrefix(host, ":") {
			return "", errHost
		}
		return host, nil
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.Contains(bare, ":") && net.ParseIP(bare) == nil {
		return "", errHost
	}
	return net.JoinHostPort(bare, port), nil
}
