package store

import (
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// clusterOptions reads redis+cluster://[user:password@]host:port[,host:port...][?options], or the
// same with rediss+cluster for TLS. The options are those of a single server's URL. It returns the
// options and the addresses of all hosts. Its errors never show the URL, which may hold a password.
func clusterOptions(c RedisConfig) (*redis.Options, []string, error) {
	m, ok := parseHosts(c.URL, "cluster")
	if !ok {
		return nil, nil, errors.New("store: the URL of a Redis Cluster begins with redis+cluster:// or rediss+cluster://")
	}
	var options *redis.Options
	var seeds []string
	for _, host := range m.hosts {
		one := c
		one.URL = m.scheme + "://" + m.user + host + m.tail
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
