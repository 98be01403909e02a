package store

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// clusterOptions reads redis+cluster://[user:password@]host:port[,host:port...][?options],
// or the same of rediss+cluster, for TLS. Options are those of a single server's URL. Its
// errors never show the URL, which may hold a password.
func clusterOptions(c RedisConfig) (*redis.Options, []string, error) {
	scheme, rest, _ := strings.Cut(c.URL, "://")
	single, cluster := strings.CutSuffix(scheme, "+cluster")
	if !cluster || single != "redis" && single != "rediss" {
		return nil, nil, errors.New("store: the URL of a Redis Cluster begins with redis+cluster:// or rediss+cluster://")
	}
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	user := ""
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, authority = authority[:at+1], authority[at+1:]
	}
	var options *redis.Options
	var seeds []string
	for host := range strings.SplitSeq(authority, ",") {
		one := c
		one.URL = single + "://" + user + host + tail
		o, err := redisOptions(one)
		if err != nil {
			return nil, nil, err
		}
		if _, port, err := net.SplitHostPort(o.Addr); host == "" || err != nil || port == "" {
			return nil, nil, errors.New("store: the Redis Cluster's URL names an empty host; write redis+cluster://HOST:PORT,HOST:PORT")
		}
		if o.DB != 0 {
			return nil, nil, errors.New("store: a Redis Cluster has one database, 0")
		}
		if options == nil {
			options = o
		}
		seeds = append(seeds, o.Addr)
	}
	return options, seeds, nil
}

// IsCluster tells whether a URL is that of a Redis Cluster.
func IsCluster(redisURL string) bool {
	scheme, _, found := strings.Cut(redisURL, "://")
	return found && strings.HasSuffix(scheme, "+cluster")
}
