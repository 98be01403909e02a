package regional

import "github.com/spf13/pflag"

// StateFileFlag is the name of the flag whose default depends on other flags; see DefaultStateFile.
const StateFileFlag = "state-file"

// Bind adds the daemon's flags to fs, in the order of its help. They set c, whose values are their
// defaults.
func (c *Config) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&c.Region, "region", c.Region, "`name` of this region, as the coordinators know it (required)")
	fs.StringSliceVar(&c.Coordinators, "coordinators", c.Coordinators, "RPC `addresses` of coordinators, host:port,...; one that answers is enough; --join is the same")
	fs.StringVar(&c.Redis, "redis", c.Redis, "`store` of the region: memory, redis://HOST:PORT, rediss://HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/NAME or redis+cluster://HOST:PORT,HOST:PORT; memory is this process's own, so a second daemon of the region needs Redis: with memory each of them would admit what the region may")
	fs.StringVar(&c.RedisPasswordFile, "redis-password-file", c.RedisPasswordFile, "`file` with the password of --redis, whose URL then has none")
	fs.StringVar(&c.StateFile, StateFileFlag, c.StateFile, "`file` that keeps rules and configuration, so that a restart needs no coordinator; none: no file (default: regional-REGION-PORT.json, with the port of --listen, in $STATE_DIRECTORY, $XDG_STATE_HOME/aliquot or ~/.local/state/aliquot)")
	fs.StringVar(&c.WithoutRules, "without-rules", c.WithoutRules, "`answer` to requests before the state file or a coordinator has told the rules: deny (mode no_rules_yet, HTTP 503) or allow")
	for i := range servers {
		address := servers[i].address(c)
		fs.StringVar(address, servers[i].flag, *address, servers[i].usage)
	}
	fs.StringVar(&c.Headers, "headers", c.Headers, "rate limit `headers` of GET /check: both, legacy (X-RateLimit-*), ietf (RateLimit, RateLimit-Policy) or none")
	fs.StringVar(&c.RLSHeaders, "rls-headers", c.RLSHeaders, "rate limit `headers` in answers to Envoy's rate limit protocol: both, legacy, ietf or none; Envoy can write headers of its own")
	fs.StringSliceVar(&c.Identity.APIKeyFrom, "api-key-from", c.Identity.APIKeyFrom, "`places` where GET /check looks for the API key, the first that has one counts: header (X-API-Key), header:NAME, bearer, query:NAME, jwt:CLAIM (of the bearer token, which is NOT verified)")
	fs.StringVar(&c.Identity.UserHeader, "user-header", c.Identity.UserHeader, "`header` with the user's id for GET /check, believed from --trusted-proxies; empty: none")
	fs.StringSliceVar(&c.Identity.AttributeHeaders, "attribute-header", c.Identity.AttributeHeaders, "`header`=ATTRIBUTE that GET /check takes an attribute or a cost from, believed from --trusted-proxies: X-Tier=tier, X-Tokens=costs.tokens, or a claim of the bearer token (NOT verified): jwt:plan=tier; repeatable")
	fs.StringSliceVar(&c.Identity.TrustedProxies, "trusted-proxies", c.Identity.TrustedProxies, "`networks` whose X-Forwarded-For, user and attribute headers GET /check believes, CIDR,...")
	fs.IntVar(&c.ThrottleAfter, "throttle-after", c.ThrottleAfter, "`denials` in a row on one connection after which each further answer on it is delayed (1 ms, doubling up to 100 ms) until one request is admitted; 0: never. Connections from --trusted-proxies are never delayed")
	fs.IntVar(&c.HotKeyLog, "hot-key-log", c.HotKeyLog, "`checks` a second from which on a key gets a line in the log; 0: never")
	fs.StringSliceVar(&c.AllowHosts, "allow-host", c.AllowHosts, "`names` without a port, a,b,c, that calls over Connect may use for this daemon; addresses, --advertise, the machine's name and names that are not public are always allowed, and GET /check under any name")
	fs.IntVar(&c.RememberKeys, "remember-keys", c.RememberKeys, "`number` of keys whose values stay in memory, so that 'aliquot hotkeys --values' can show them to everybody who reaches --ops-listen; 0: none")
	fs.StringVar(&c.Advertise, "advertise", c.Advertise, "`host` under which others reach this daemon (default: the host of --listen)")
	fs.BoolVar(&c.Insecure, "insecure", c.Insecure, "listen without TLS where other machines can reach it")
	fs.String("gossip-listen", "", "ignored")
	_ = fs.MarkDeprecated("gossip-listen", "a regional daemon does not gossip; leave it out") // the flag is there
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "join" {
			name = "coordinators"
		}
		return pflag.NormalizedName(name)
	})
}
