-- roster: the list of the daemons of a region, the twin of package roster (list.go).
--
-- KEYS[1]  the key of the redis epoch    KEYS[2]  that of the list
-- ARGV[1]  the redis epoch expected      ARGV[2]  the caller's id, 16 hex digits
-- ARGV[3]  its number, 0: it asks for one    ARGV[4]  the highest number it has read of
-- ARGV[5]  1 if it leaves    ARGV[6]  after how long a daemon that does not come back is
--          dropped, milliseconds    ARGV[7]  how many others there may be
-- Reply    {-1, epoch found or ''} if the contents are not the ones expected, or if the server
--          was promoted since they were named; else
--          {now, the caller's number, the highest number, 1 if the caller was in the list,
--          id, read, at, ...} of the others, those that came last first
--
-- The list is a text: "<highest number> <id>:<read>:<at> ...". What makes no sense in it is
-- dropped. It takes GET, SET and INFO alone, which the other scripts need too.

local found = redis.call('GET', KEYS[1])
if found ~= ARGV[1] then
  return {-1, found or ''}
end
if redis.replicate_commands then
  redis.replicate_commands()
end

-- As in prelude.lua: the daemons that entered themselves last may be lost.
local replication = redis.pcall('INFO', 'replication')
local second = type(replication) == 'string' and string.match(replication, 'master_replid2:(%x%x%x%x%x%x%x%x)')
if second and second ~= '00000000' and not string.find(found, '-' .. second, 1, true) then
  return {-1, ''}
end
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local self, number, read = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local drop, most = tonumber(ARGV[6]), tonumber(ARGV[7])
local EXACT = 9007199254740991 -- 2^53 - 1

local text = redis.pcall('GET', KEYS[2])
if type(text) ~= 'string' then
  text = ''
end
local last = tonumber(string.match(text, '^%d+')) or 0
if last == 0 or last > EXACT then
  last = now -- a new list: above every number of one that was lost
end
if number == 0 then
  last = last + 1
  number = last
end
last = math.max(last, number)

local kept, reply = {string.format('%.0f', last)}, {now, number, last, 0}
if ARGV[5] ~= '1' then
  kept[2] = string.format('%s:%.0f:%.0f', self, read, now)
end
local others = 0
for id, seen, at in string.gmatch(text, ' (%x+):(%d+):(%d+)') do
  local came = tonumber(at)
  if id == self then
    reply[4] = 1
  elseif #id == 16 and came <= EXACT and tonumber(seen) <= EXACT and now - came < drop * 1000 and others < most then
    others = others + 1
    kept[#kept + 1] = id .. ':' .. seen .. ':' .. at
    reply[#reply + 1] = id
    reply[#reply + 1] = tonumber(seen)
    reply[#reply + 1] = came
  end
end
redis.call('SET', KEYS[2], table.concat(kept, ' '), 'PX', drop)
return reply
