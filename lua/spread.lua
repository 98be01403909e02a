-- spread: replaces a text that the caller read before, unless the text has changed since. It
-- replaces the epoch of a slot of a Redis Cluster by the one of another slot, and what is kept
-- of a reservation.
--
-- KEYS[1]  the key, whose TTL stays
-- ARGV[1]  the text read before, '' for none    ARGV[2]  the new one
-- Reply    the text in force

local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] then
  return found
end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return ARGV[2]
