-- mint: names the store's contents, unless another daemon has done so.
--
-- KEYS[1]  the key of the redis epoch
-- ARGV[1]  the value read before, '' for none: if there is another one now, it stays
-- ARGV[2]  nonce    ARGV[3]  the server's run id, and its promotion, if there was one
-- Reply    the redis epoch in force: "<nonce>:<run id and promotion>:<microseconds>"

if redis.replicate_commands then
  redis.replicate_commands()
end
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] then
  return found
end
local clock = redis.call('TIME')
local birth = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local minted = ARGV[2] .. ':' .. ARGV[3] .. ':' .. string.format('%.0f', birth)
redis.call('SET', KEYS[1], minted)
return minted
