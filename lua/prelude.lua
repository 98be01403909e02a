-- Shared by take.lua and apply.lua, which follow this text and records.lua in one chunk: the
-- twin of package limit (settle.go, extra.go, bucket.go, apply.go), step for step. Every number
-- is an integer below 2^53 unless said otherwise; package lua checks what it sends.
-- Between them come the texts for limits that count, but for takes of buckets alone, and
-- before take.lua usual.lua.
--
-- KEYS[1]  the key of the redis epoch; KEYS[2..] records, in the caller's order: the
--          last byte says the algorithm, here b (token bucket) or q (leaky bucket);
--          at the very end, if ARGV[8], a lease or a limit that counts asks for it, the
--          key of heard
-- ARGV[1]  the redis epoch expected    ARGV[2]  its stamp, 8 hex digits
-- ARGV[3]  phase: 0 limbo, 1 live, 2 floor
-- ARGV[4]  since   ARGV[5] until   ARGV[6] birth   (microseconds of this clock)
-- ARGV[7]  since when the floors are what they are, 0: no change matters
-- ARGV[8]  for how long the region must not have been heard, microseconds; 0: no
--          matter, as in every phase but floor; -1: only to limits that count
-- ARGV[9]  1 if the caller is blind, in phase floor or limbo: limit.View.Blind; 2 more if
--          some limit has changed; 4 more if some record is remembered
-- ARGV[10] the highest generation the caller knows of, in phase live: limit.View.Known
-- ARGV[11..] what the script itself says. A view's generation is that of a hot key's
-- share, above 0, or for a cold key minus the highest one applied for any key. The
-- three numbers of low are sent only if ARGV[7] is not 0, those of the limbo floor only if
-- the caller is blind, and those of a change only if some limit has changed: since (0: this
-- one has not), slow: rate, fraction, before: capacity, rate, fraction. What is remembered (limit.Memory) is sent only if some
-- record is: 1 if this one is, then tokens and extra.
--
-- Reply, first of all: {-1, epoch found or ''} if the contents are not the ones
-- expected, or if the server was promoted since they were named; nothing was read or
-- written then.

local KEYS, ARGV = KEYS, ARGV -- globals take longer
local EXACT = 9007199254740991 -- 2^53 - 1
local MAX_SECS = 3153600000    -- 100 years, limit.maxSecs
local MAX_CHUNK_LIFE = 3000000 -- limit.MaxChunkLife, microseconds
local EPOCH = 4294967296       -- generations of one epoch, limit.epochBits
local SHARES_LAST = 1000000    -- limit.sharesLast, microseconds
local floor, max, min, format, match, byte, tonumber = math.floor, math.max, math.min, string.format, string.match, string.byte, tonumber
local ceil, call, pcall_redis, type = math.ceil, redis.call, redis.pcall, type

local found = call('GET', KEYS[1])
if found ~= ARGV[1] then
  return {-1, found or ''}
end
if redis.replicate_commands then -- Redis before 7: replicate the writes, not the script
  redis.replicate_commands()
end

-- A promotion leaves the connections of before and, where it was replicated, the epoch; the
-- latest writes may be lost. It gives the server a second replication id, by which the epoch
-- names it ever since; see epoch.go.
local replication = redis.pcall('INFO', 'replication')
local _, before = string.find(type(replication) == 'string' and replication or '', 'master_replid2:', 1, true)
local second = before and match(replication, '^%x%x%x%x%x%x%x%x', before + 1)
if second and second ~= '00000000' and not string.find(found, '-' .. second, 1, true) then
  return {-1, ''}
end

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local STAMP = ARGV[2]
local SINCE, UNTIL, BIRTH = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local FLOOR_SINCE, HEARD_WAIT = ARGV[7] + 0, ARGV[8] + 0
local LIMBO, LIVE, FLOOR = 0, 1, 2

local heard_at -- when the region was last heard; nil for never, or if nobody asks
if HEARD_WAIT ~= 0 then
  local heard = redis.pcall('GET', KEYS[#KEYS])
  if heard then
    heard_at = type(heard) == 'string' and match(heard, '^%d+$') and tonumber(heard)
    if not heard_at or heard_at < 1 or heard_at > EXACT then
      heard_at = now -- not a time: the region was heard at a time that is not known
    end
    if HEARD_WAIT > 0 then
      SINCE = max(SINCE, math.min(heard_at + HEARD_WAIT, EXACT))
    end
  end
end
local PHASE = ARGV[3] + 0
local phase = PHASE
if (phase == LIVE and now > UNTIL) or (phase == FLOOR and now < SINCE) then
  phase = LIMBO
end
local FLAGS, KNOWN = ARGV[9] + 0, ARGV[10] + 0
local BLIND, CHANGES, REMEMBERS = FLAGS % 2 == 1, FLAGS % 4 >= 2, FLAGS >= 4

-- Most records are cold, with STAMP and without gen, and something may be lent of them. They
-- are read and written with the fewest steps: PLAIN and LENT are patterns of such texts,
-- and PLAIN_NOW and LENT_NOW formats of those that are written now.
local OURS, NOW = 'c ' .. STAMP .. ' ', ' ' .. format('%d', now) .. ' '
local PLAIN, PLAIN_NOW = '^' .. OURS .. '(%-?%d+) (%d+) (%d+)$', OURS .. '%d' .. NOW .. '%d'
local LENT, LENT_NOW = '^l (%d+) (%d+) ' .. OURS .. '(%-?%d+) (%d+) (%d+)$', 'l %d %d ' .. PLAIN_NOW

local function clamp(tokens, carry, most)
  if tokens >= most then
    return most, 0
  end
  return tokens, carry
end

-- refill: see limit/bucket.go, with the worked number.
local function refill(tokens, carry, cap, rate, frac, from, to)
  if to <= from then
    return clamp(tokens, carry, cap)
  end
  local elapsed = to - from
  local us = elapsed % 1000000
  local secs = (elapsed - us) / 1000000
  if secs > 2 and rate > 0 and secs > floor((cap - min(tokens, 0)) / rate) + 2 then
    return cap, 0
  end
  if secs > MAX_SECS then
    secs, us = MAX_SECS, 0
  end
  local part = rate % 1000000
  local low = part * us + carry
  if frac > 0 then
    low = low + frac * secs + floor(frac * us / 1000000)
  end
  local rest = low % 1000000
  local whole = rate * secs + (rate - part) / 1000000 * us + (low - rest) / 1000000
  return clamp(tokens + whole, rest, cap)
end

-- earn_lent is earn of what is left in a bucket with so much out until then.
local function earn_lent(tokens, carry, lent, lent_until, cap, rate, frac, from, to)
  if from > lent_until then
    return refill(tokens, carry, cap, rate, frac, from, to)
  end
  local till = min(to, lent_until)
  tokens, carry = refill(tokens, carry, max(0, cap - lent), rate, frac, from, till)
  if till == to then
    return tokens, carry
  end
  return refill(tokens, carry, cap, rate, frac, till, to)
end

-- out: limit.Record.out; extra is the view's.
local function out(r, extra)
  if r.hot and r.lent > 0 then
    return max(0, r.lent - max(0, extra - r.extra))
  end
  return r.lent
end

-- bring_back: limit.Record.bringBack; ecap is the capacity in force without extra.
-- Returns what the caller keeps, or nil if nothing of it was lent any more.
local function bring_back(r, ecap, extra, was, till, keep, back)
  if was == 0 or r.lent == 0 or r.lent_until ~= till then
    return nil
  end
  r.lent = r.lent - min(was, r.lent) + keep
  if r.lent == 0 then
    r.lent_until = 0
  end
  if back > 0 then
    local most = ecap
    if not r.hot then
      most = most + extra
    end
    local room = most - out(r, extra) - r.tokens
    if back >= room then
      r.tokens, r.carry = r.tokens + max(0, room), 0
    else
      r.tokens = r.tokens + back
    end
  end
  return keep
end

-- ttl: limit.TTL, milliseconds, of a cold bucket.
local function ttl(tokens, ccap, frate, ffrac)
  local missing = ccap - tokens
  if missing <= 0 then
    return 1000
  end
  local ms = missing / (frate + ffrac / 1000000) * 1020
  if not (ms < MAX_SECS * 1000) then
    return MAX_SECS * 1000
  end
  return ceil(ms) + 1000
end

-- text_at is the text under a key; false if there is none.
local function text_at(key)
  -- pcall: a key of another type is not trusted, and does not fail the rest.
  local got = pcall_redis('GET', key)
  if type(got) == 'table' then
    return 'of another type'
  end
  return got
end

-- Records are read once and written once a call, however many groups name them, but for usual
-- ones, see usual.lua. limits are those of the records that count.
local records, limits_of, order = {}, {}, {}
local counted -- the functions for limits that count, see counted.lua; nil if there is none

-- expires is when a time to live ends that begins now, as PXAT wants it. The latest is
-- remembered: many have the same.
local last_ttl, last_end
local now_ms = floor(now / 1000)
local function expires(ttl)
  if ttl ~= last_ttl then
    last_ttl, last_end = ttl, format('%d', now_ms + ttl)
  end
  return last_end
end

-- lent_ttl is how much longer a record is kept of which something is lent until then:
-- limit.Record.Keep, milliseconds.
local function lent_ttl(lent_until)
  local us = lent_until - now
  return floor(us / 1000) + floor(us / 50000) + 1001
end

-- slower is the smaller of two rates, whole and fraction.
local function slower(rate, frac, rate2, frac2)
  if rate2 < rate or (rate2 == rate and frac2 < frac) then
    return rate2, frac2
  end
  return rate, frac
end

-- in_limbo is the floor, and low, that hold if a blind caller, in phase floor, finds
-- itself in limbo: cap, rate and frac are the limbo floor.
local function in_limbo(cap, rate, frac, fcap, frate, ffrac, lowcap, lowrate, lowfrac)
  if phase == FLOOR then
    return fcap, frate, ffrac, lowcap, lowrate, lowfrac
  end
  if lowcap then
    lowcap = min(lowcap, cap)
    lowrate, lowfrac = slower(lowrate, lowfrac, rate, frac)
  end
  return cap, rate, frac, lowcap, lowrate, lowfrac
end

-- change_of is a limit's change as a table, nil if it has none.
local function change_of(since, rate, frac, bcap, brate, bfrac)
  if since ~= 0 then
    return {since = since, rate = rate, frac = frac, bcap = bcap, brate = brate, bfrac = bfrac}
  end
end

-- memory_of is what is remembered of a record as a table, nil if nothing is.
local function memory_of(is, tokens, extra)
  if is == 1 then
    return {tokens = tokens, extra = extra}
  end
end
