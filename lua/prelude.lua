-- Shared by take.lua and apply.lua, which follow this text in one chunk: the twin of
-- package limit (settle.go, extra.go, bucket.go, apply.go), step for step. Every number
-- is an integer below 2^53 unless said otherwise; package lua checks what it sends.
-- Between the two come the texts for limits that count, but for takes of buckets alone, and
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
local floor, max, format, match, byte, tonumber = math.floor, math.max, string.format, string.match, string.byte, tonumber
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
local second = type(replication) == 'string' and match(replication, 'master_replid2:(%x%x%x%x%x%x%x%x)')
if second and second ~= '00000000' and not string.find(found, '-' .. second, 1, true) then
  return {-1, ''}
end

local clock = call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local STAMP = ARGV[2]
local SINCE, UNTIL, BIRTH = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local FLOOR_SINCE, HEARD_WAIT = tonumber(ARGV[7]), tonumber(ARGV[8])
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
local PHASE = tonumber(ARGV[3])
local phase = PHASE
if (phase == LIVE and now > UNTIL) or (phase == FLOOR and now < SINCE) then
  phase = LIMBO
end
local FLAGS, KNOWN = tonumber(ARGV[9]), tonumber(ARGV[10])
local BLIND, CHANGES, REMEMBERS = FLAGS % 2 == 1, FLAGS % 4 >= 2, FLAGS >= 4

-- exact turns digits (or a number) into a number, or nil above most.
local function exact(digits, most)
  local n = tonumber(digits)
  if n and n <= most then
    return n
  end
end

-- parse_any is parse of any text.
local function parse_any(text)
  local lent, lent_until = 0, 0
  if byte(text) == 108 then -- 'l'
    lent, lent_until, text = match(text, '^l (%d+) (%d+) (.*)$')
    lent, lent_until = exact(lent, 1e15), exact(lent_until, EXACT)
    if not (lent and lent > 0 and lent_until) then
      return {gen = 0}
    end
  end
  local stamp, tokens, at, carry, gen, cap, rate, frac, rest = match(text, '^c (%x+) (%-?%d+) (%d+) (%d+)( ?%d*)$')
  local hot, extra = not stamp, 0
  if stamp then
    if gen ~= '' then
      gen = exact(gen, EXACT)
    else
      gen = 0
    end
    cap, rate, frac = 0, 0, 0
  else
    stamp, tokens, at, carry, gen, cap, rate, frac, rest =
      match(text, '^h (%x+) (%-?%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
    gen, cap, rate, frac = exact(gen, EXACT), exact(cap, 1e15), exact(rate, 1e15), exact(frac, 999999)
    if rest ~= '' then
      extra = exact(rest and match(rest, '^ (%d+)$'), 1e15)
    end
  end
  if not stamp then
    return {gen = 0}
  end
  tokens, at, carry = tokens + 0, at + 0, carry + 0
  if not (tokens <= 1e15 and tokens >= -1e15 and at <= EXACT and carry <= 999999 and gen and cap and rate and frac and extra) then
    return {gen = 0}
  end
  return {
    hot = hot, stamp = stamp, tokens = tokens, at = at, carry = carry, gen = gen, cap = cap, rate = rate, frac = frac,
    extra = extra, lent = lent, lent_until = lent_until, ccap = 0, crate = 0, cfrac = 0,
  }
end

-- Most records are cold, with STAMP and without gen, and something may be lent of them. They
-- are read and written with the fewest steps: PLAIN and LENT are patterns of such texts,
-- and PLAIN_NOW and LENT_NOW formats of those that are written now.
local OURS, NOW = 'c ' .. STAMP .. ' ', ' ' .. format('%d', now) .. ' '
local PLAIN, PLAIN_NOW = '^' .. OURS .. '(%-?%d+) (%d+) (%d+)$', OURS .. '%d' .. NOW .. '%d'
local LENT, LENT_NOW = '^l (%d+) (%d+) ' .. OURS .. '(%-?%d+) (%d+) (%d+)$', 'l %d %d ' .. PLAIN_NOW

-- parse reads a record: nil where there is none; without a stamp where the text
-- makes no sense, so that it is not trusted.
local function parse(text)
  if not text then
    return nil
  end
  local lent, lent_until = 0, 0
  local tokens, at, carry = match(text, PLAIN)
  if not tokens then
    lent, lent_until, tokens, at, carry = match(text, LENT)
    if not tokens then
      return parse_any(text)
    end
    lent, lent_until = lent + 0, lent_until + 0 -- a third of what tonumber takes
    if lent == 0 then
      return {gen = 0}
    end
  end
  tokens, at, carry = tokens + 0, at + 0, carry + 0
  if tokens > 1e15 or tokens < -1e15 or at > EXACT or carry > 999999 or lent > 1e15 or lent_until > EXACT then
    return {gen = 0}
  end
  return {
    hot = false, stamp = STAMP, tokens = tokens, at = at, carry = carry, gen = 0, cap = 0, rate = 0, frac = 0,
    extra = 0, lent = lent, lent_until = lent_until, ccap = 0, crate = 0, cfrac = 0,
  }
end

-- text is what parse reads.
local function text(r, plain)
  if not r.hot and r.gen == 0 and r.at == now and r.stamp == STAMP then
    if r.lent > 0 and not plain then
      return format(LENT_NOW, r.lent, r.lent_until, r.tokens, r.carry)
    end
    return format(PLAIN_NOW, r.tokens, r.carry)
  end
  if r.lent > 0 and not plain then
    return format('l %d %d ', r.lent, r.lent_until) .. text(r, true)
  end
  if r.hot then
    if r.extra > 0 then
      return format('h %s %d %d %d %d %d %d %d %d',
        r.stamp, r.tokens, r.at, r.carry, r.gen, r.cap, r.rate, r.frac, r.extra)
    end
    return format('h %s %d %d %d %d %d %d %d',
      r.stamp, r.tokens, r.at, r.carry, r.gen, r.cap, r.rate, r.frac)
  end
  if r.gen > 0 then
    return format('c %s %d %d %d %d', r.stamp, r.tokens, r.at, r.carry, r.gen)
  end
  return format('c %s %d %d %d', r.stamp, r.tokens, r.at, r.carry)
end

local function min(a, b)
  if b < a then
    return b
  end
  return a
end

-- slower is the smaller of two rates, whole and fraction.
local function slower(rate, frac, rate2, frac2)
  if rate2 < rate or (rate2 == rate and frac2 < frac) then
    return rate2, frac2
  end
  return rate, frac
end

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

-- under is what a share allows in the present phase.
local function under(cap, rate, frac, fcap, frate, ffrac)
  if phase == LIVE then
    return cap, rate, frac
  end
  if phase == FLOOR then
    return fcap, frate, ffrac
  end
  return min(cap, fcap), slower(rate, frac, frate, ffrac)
end

-- spend takes what the record holds, from extra first, and returns how much of it
-- was extra.
local function spend(r, cost)
  local extra = min(r.extra, cost)
  r.extra = r.extra - extra
  r.tokens = r.tokens - (cost - extra)
  return extra
end

-- less is a capacity of which so much is lent.
local function less(cap, lent)
  if lent > 0 then
    return max(0, cap - lent)
  end
  return cap
end

-- out: limit.Record.out; extra is the view's.
local function out(r, extra)
  if r.hot and r.lent > 0 then
    return max(0, r.lent - max(0, extra - r.extra))
  end
  return r.lent
end

-- cool_down makes a record cold; ccap is the cold bucket's capacity.
local function cool_down(r, ccap)
  r.hot = false
  r.tokens, r.carry = clamp(r.tokens + r.extra, r.carry, less(ccap, r.lent))
  r.extra = 0
end

-- earn: limit.Record.earn; extra is the view's.
local function earn(r, extra, cap, rate, frac, from, to)
  if r.lent == 0 or from > r.lent_until then
    return refill(r.tokens, r.carry, cap, rate, frac, from, to)
  end
  local till = min(to, r.lent_until)
  local tokens, carry = refill(r.tokens, r.carry, less(cap, out(r, extra)), rate, frac, from, till)
  if till == to then
    return tokens, carry
  end
  return refill(tokens, carry, cap, rate, frac, till, to)
end

-- lease_covers: limit.View.leaseCovers.
local function lease_covers(r, changed)
  return r.gen > KNOWN and floor(r.gen / EPOCH) == floor(KNOWN / EPOCH) and r.at >= changed and now - r.at <= SHARES_LAST
end

-- settle_hot: limit.Record.refillHot, after obey.
local function settle_hot(r, gen, scap, srate, sfrac, fcap, frate, ffrac, extra, lowcap, lowrate, lowfrac, change)
  if gen > 0 and r.gen > gen and phase == LIVE and not lease_covers(r, change and change.since or 0) then
    r.cap = min(r.cap, scap)
    r.rate, r.frac = slower(r.rate, r.frac, srate, sfrac)
  end
  local bcap, brate, bfrac = r.cap, r.rate, r.frac                    -- base
  local pcap, prate, pfrac = under(bcap, brate, bfrac, fcap, frate, ffrac) -- before
  local ecap, erate, efrac = pcap, prate, pfrac                       -- enforced
  local cooled = false
  local other = phase ~= PHASE or (gen > 0 and r.gen ~= gen) or (gen <= 0 and phase == LIMBO)
  if gen > 0 then
    if r.gen == gen then
      r.cap, r.rate, r.frac = scap, srate, sfrac
      ecap, erate, efrac = under(scap, srate, sfrac, fcap, frate, ffrac)
    elseif phase == FLOOR then
      ecap = min(bcap, fcap)
      erate, efrac = slower(brate, bfrac, frate, ffrac)
      pcap, prate, pfrac = ecap, erate, efrac
    end
  elseif r.gen > -gen or phase == LIMBO then
    ecap = min(bcap, fcap)
    erate, efrac = slower(brate, bfrac, frate, ffrac)
    pcap, prate, pfrac = ecap, erate, efrac
  else
    ecap, erate, efrac = fcap, frate, ffrac
    cooled = phase == LIVE
  end
  local from, start = r.at, FLOOR_SINCE
  if phase ~= LIMBO and SINCE > start then
    start = SINCE
  end
  pcap = min(pcap, ecap)
  prate, pfrac = slower(prate, pfrac, erate, efrac)
  local lapsed = (phase ~= LIMBO and r.at <= SINCE) or r.at < FLOOR_SINCE
  local changed = change and r.at < change.since
  if lapsed or changed then
    local lcap, lrate, lfrac = pcap, prate, pfrac
    if lapsed then
      lcap = min(min(bcap, fcap), ecap)
      lrate, lfrac = slower(brate, bfrac, frate, ffrac)
      lrate, lfrac = slower(lrate, lfrac, erate, efrac)
    end
    if r.at < FLOOR_SINCE then
      lcap = min(lcap, lowcap)
      lrate, lfrac = slower(lrate, lfrac, lowrate, lowfrac)
    end
    if changed then
      start = max(start, change.since)
      if other then
        lrate, lfrac = 0, 0 -- the caller's slowest rate is of another share
      else
        lrate, lfrac = slower(lrate, lfrac, change.rate, change.frac)
      end
    end
    from = min(start, now)
    r.tokens, r.carry = earn(r, extra, lcap, lrate, lfrac, r.at, from)
  end
  r.tokens, r.carry = earn(r, extra, pcap, prate, pfrac, from, now)
  if cooled then
    cool_down(r, fcap + extra)
  end
  return r, ecap, erate, efrac
end

-- expired: limit.View.expired.
local function expired(ccap, frate, ffrac, change)
  local lost, part = refill(0, 0, 1e15, change.brate, change.bfrac, change.since, now)
  if part > 0 then
    lost = lost + 1
  end
  return refill(max(0, change.bcap - lost), 0, ccap, frate, ffrac, change.since, now)
end

-- fresh_cold: limit.freshCold. change is nil if the limit has not changed.
local function fresh_cold(r, ccap, frate, ffrac, lowcap, change)
  local tokens, carry = 0, 0
  if BIRTH ~= 0 then
    local from = max(BIRTH, FLOOR_SINCE)
    if change and from < change.since then
      local rate, frac = slower(frate, ffrac, change.rate, change.frac)
      tokens, carry = refill(0, 0, ccap, rate, frac, from, min(change.since, now))
      from = change.since
    end
    tokens, carry = refill(tokens, carry, ccap, frate, ffrac, from, now)
  elseif not r and FLOOR_SINCE == 0 then
    tokens = ccap
  elseif not r then
    tokens, carry = refill(0, 0, ccap, frate, ffrac, FLOOR_SINCE, now)
    if tokens < lowcap then
      tokens, carry = lowcap, 0
    end
  end
  if change then
    local left, part = expired(ccap, frate, ffrac, change)
    if left < tokens then
      tokens, carry = left, part
    end
  end
  return {
    hot = false, stamp = STAMP, tokens = tokens, at = now, carry = carry, gen = 0, extra = 0, lent = 0, lent_until = 0,
    ccap = ccap, crate = frate, cfrac = ffrac,
  }
end

-- may_be_out: limit.View.mayBeOut.
local function may_be_out(found)
  if now < BIRTH then
    return 1e15, min(BIRTH, now + MAX_CHUNK_LIFE)
  end
  if found and found.stamp == STAMP then
    return found.lent, found.lent_until
  end
  return 0, 0
end

-- settle: limit.Settle. Returns the record, the bucket enforced without extra, and 1
-- for amnesia. low is nil without FLOOR_SINCE, change for a limit that has not changed, memory where
-- nothing is remembered.
local function settle(r, gen, scap, srate, sfrac, fcap, frate, ffrac, debit, extra, lowcap, lowrate, lowfrac, change, memory)
  local amnesia = 0
  local ecap, erate, efrac = fcap, frate, ffrac
  local found = r
  if r and r.stamp == STAMP and now < r.at then -- limit.setBack
    if r.lent > 0 then
      r.lent_until = r.lent_until + (now - r.at)
    end
    r.at, r.tokens, r.carry, r.extra = now, min(r.tokens, 0), 0, 0
  end
  if memory and not (r and r.stamp == STAMP) then -- limit.View.remembered
    r = {hot = gen > 0, tokens = min(memory.tokens, fcap + extra), carry = 0, gen = 0, extra = 0, lent = 0, lent_until = 0}
    if r.hot then
      ecap, erate, efrac = under(scap, srate, sfrac, fcap, frate, ffrac)
      r.gen, r.cap, r.rate, r.frac = gen, scap, srate, sfrac
      r.tokens, r.extra = min(memory.tokens, ecap), min(memory.extra, extra)
    end
  elseif r and r.stamp == STAMP and r.gen >= gen then
    if r.hot then
      r.extra = min(r.extra, extra)
      r, ecap, erate, efrac =
        settle_hot(r, gen, scap, srate, sfrac, fcap, frate, ffrac, extra, lowcap, lowrate, lowfrac, change)
    else -- limit.settleCold
      local from, since = r.at, FLOOR_SINCE
      if change then
        since = max(since, change.since)
      end
      if from < since then
        local cap, rate, frac = fcap + extra, frate, ffrac
        if from < FLOOR_SINCE then
          cap, rate, frac = lowcap + extra, lowrate, lowfrac
        end
        if change and from < change.since then
          rate, frac = slower(rate, frac, change.rate, change.frac)
        end
        from = min(since, now)
        r.tokens, r.carry = earn(r, extra, cap, rate, frac, r.at, from)
      end
      r.tokens, r.carry = earn(r, extra, fcap + extra, frate, ffrac, from, now)
    end
  elseif gen > 0 then
    ecap, erate, efrac = under(scap, srate, sfrac, fcap, frate, ffrac)
    r = {hot = true, tokens = 0, carry = 0, gen = gen, cap = scap, rate = srate, frac = sfrac, extra = 0}
    r.lent, r.lent_until = may_be_out(found)
    amnesia = 1
  else
    r = fresh_cold(r, fcap + extra, frate, ffrac, lowcap, change)
    r.lent, r.lent_until = may_be_out(found)
  end
  if debit > 0 then
    spend(r, min(debit, max(0, r.tokens + r.extra)))
  end
  if r.lent > 0 and now > r.lent_until then
    r.lent, r.lent_until = 0, 0
  end
  r.at, r.stamp = now, STAMP
  return r, ecap, erate, efrac, amnesia
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

-- Records are read once and written once a call, however many groups name them, but for usual
-- ones, see usual.lua. limits are those of the records that count.
local records, limits_of, order = {}, {}, {}
local counted -- the functions for limits that count, see counted.lua; nil if there is none

-- text_at is the text under a key; false if there is none.
local function text_at(key)
  -- pcall: a key of another type is not trusted, and does not fail the rest.
  local got = pcall_redis('GET', key)
  if type(got) == 'table' then
    return 'of another type'
  end
  return got
end

-- load is the record under a key; read is parse, or that of a limit that counts.
local function load(key, read)
  return records[key] or read(text_at(key))
end

-- keep_record has a record written in the end.
local function keep_record(key, r)
  if not records[key] then
    order[#order + 1] = key
  end
  records[key] = r
end

local function keep(key, r, ccap, frate, ffrac)
  r.ccap, r.crate, r.cfrac = ccap, frate, ffrac
  keep_record(key, r)
end

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

local function save()
  for i = 1, #order do
    local key = order[i]
    local r, l = records[key], limits_of[key]
    if l then
      l.write(key, r, l)
    elseif r.hot then
      call('SET', key, text(r))
    else
      local px = ttl(r.tokens, r.ccap, r.crate, r.cfrac)
      if r.lent > 0 then -- limit.Record.Keep
        local us = r.lent_until - r.at
        px = px + floor(us / 1000) + floor(us / 50000) + 1001
      end
      call('SET', key, text(r), 'PXAT', expires(px))
    end
  end
end
