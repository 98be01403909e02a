package store

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// sentinelPort is the port of a Sentinel whose host in the URL names no port.
const sentinelPort = "26379"

// sentinelConfig is the name of the primary and the Sentinels to ask for its address.
type sentinelConfig struct {
	name      string
	sentinels []*redis.Options
}

// sentinelOptions reads
// redis+sentinel://[user:password@]host:port[,host:port...]/name[/database][?options], or the same
// with rediss+sentinel, which uses TLS for both Redis and Sentinels. User and password are those of
// the Redis. The options sentinel_user and sentinel_password are those of the Sentinels, and the
// other options are those of a single server's URL. Its errors never show the URL, which may hold a
// password.
func sentinelOptions(c RedisConfig) (*redis.Options, *sentinelConfig, error) {
	m, ok := parseHosts(c.URL, "sentinel")
	if !ok {
		return nil, nil, errors.New("store: the URL of Sentinels begins with redis+sentinel:// or rediss+sentinel://")
	}
	path, query, _ := strings.Cut(m.tail, "?")
	name, database, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if name == "" {
		return nil, nil, errors.New("store: the Sentinels' URL does not name the primary; write redis+sentinel://HOST:PORT,HOST:PORT/NAME")
	}
	if unescaped, err := url.PathUnescape(name); err == nil {
		name = unescaped
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, nil, errors.New("store: the options of the Sentinels' URL, behind the ?, cannot be read")
	}
	user, password := values.Get("sentinel_user"), values.Get("sentinel_password")
	values.Del("sentinel_user")
	values.Del("sentinel_password")
	if user != "" && password == "" {
		return nil, nil, errors.New("store: the Sentinels' URL has a sentinel_user and no sentinel_password")
	}
	tail := "/" + database
	if encoded := values.Encode(); encoded != "" {
		tail += "?" + encoded
	}
	out := &sentinelConfig{name: name}
	var options *redis.Options
	for _, host := range m.hosts {
		addr, err := withPort(host, sentinelPort)
		if err != nil {
			return nil, nil, errors.New("store: the Sentinels' URL names an invalid host; write redis+sentinel://HOST:PORT,HOST:PORT/NAME")
		}
		one := c
		one.URL = m.scheme + "://" + m.user + addr + tail
		if options, err = redisOptions(one); err != nil {
			return nil, nil, err
		}
		out.sentinels = append(out.sentinels, optionsOfSentinel(options, user, password))
	}
	options.Addr = fmt.Sprintf("the primary %q", name) // the Sentinels give the address; this names the server in errors
	return options, out, nil
}

// optionsOfSentinel returns the options of a Sentinel, derived from the options of the Redis.
func optionsOfSentinel(o *redis.Options, user, password string) *redis.Options {
	s := *o
	s.Username, s.Password, s.DB = user, password, 0
	s.PoolSize, s.MinIdleConns = 2, 0
	s.DialTimeout, s.ReadTimeout, s.WriteTimeout, s.PoolTimeout = sentinelTimeout, sentinelTimeout, sentinelTimeout, sentinelTimeout
	if o.TLSConfig != nil {
		s.TLSConfig = o.TLSConfig.Clone()
	}
	return &s
}
