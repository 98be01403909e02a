-- spread: replaces a text that somebody read before, unless it is another one by now: the
-- epoch of a slot of a Redis Cluster by the one that was minted in another slot, and what
-- is kept of a reservation.
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
