package regional

// remedy returns what an operator can do about a failure of the store, by its reason. It is empty
// if the failure passes by itself.
func remedy(reason string) string {
	switch reason {
	case "oom":
		return "raise maxmemory of the Redis, or give it to Aliquot alone; keep maxmemory-policy noeviction"
	case "readonly":
		return "this Redis is a replica: name the primary in --redis, or let redis+sentinel:// find it"
	case "noreplicas":
		return "fewer replicas are connected than min-replicas-to-write asks for: repair the replication"
	case "busy":
		return "another client's script blocks this Redis: SCRIPT KILL ends it; give Aliquot a Redis of its own"
	case "misconf":
		return "this Redis cannot save to its disk and refuses writes: free the disk, or turn snapshots off (save \"\")"
	case "noauth":
		return "this Redis wants a password: put it into the file of --redis-password-file, and the user into --redis, redis://user@host:port"
	case "wrongpass":
		return "this Redis does not take the user and password of --redis"
	case "noperm":
		return "this Redis does not permit the user of --redis every command that Aliquot needs; docs/reference/stores.md lists them"
	case "scripts":
		return "this store cannot run the scripts: use Redis 7.0 or later, or Valkey 7.2 or later, with EVAL and the library struct"
	case "scheme":
		return "the server is of another kind than --redis says: redis:// is for one Redis, redis+cluster:// for a Redis Cluster, redis+sentinel:// for Sentinels"
	case "name":
		return "the Sentinels watch no primary of the name behind the hosts in --redis: SENTINEL MASTERS lists the names that they know"
	case "clusterdown":
		return "this Redis Cluster does not serve all its slots: redis-cli --cluster check HOST:PORT says which node or slot is missing"
	case "connection":
		return "nothing answers at the address of --redis: is the Redis running, and reachable from here?"
	case "reply":
		return "the server at the address of --redis is not a Redis, or answers through something else: check what listens there, and the proxies between"
	case "stall":
		return "this Redis answers later than checks wait for it, 40 ms: look for CPU that it or the daemon lacks, and for slow scripts of others"
	case "timeout":
		return "this Redis accepts connections and does not answer: is it stopped, paused, or overloaded?"
	}
	return ""
}
