-- What every record may need, but the usual one of usual.lua does not. Redis takes as long to define
-- these functions as to decide a usual record. So in a take of buckets alone this text is the
-- function define_records, and the first other record calls it. It is given what it uses, because
-- a local that a function refers to costs Redis, too, whether or not it is called; see script.go.

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

-- cool_down makes a record cold; ccap is the cold bucket's capacity.
local function cool_down(r, ccap)
  r.hot = false
  r.tokens, r.carry = clamp(r.tokens + r.extra, r.carry, less(ccap, r.lent))
  r.extra = 0
end

-- earn: limit.Record.earn; extra is the view's.
local function earn(r, extra, cap, rate, frac, from, to)
  if r.lent == 0 then
    return refill(r.tokens, r.carry, cap, rate, frac, from, to)
  end
  return earn_lent(r.tokens, r.carry, out(r, extra), r.lent_until, cap, rate, frac, from, to)
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

-- write writes a record under its key, cold ones with their time to live.
local function write(key, r)
  if r.hot then
    call('SET', key, text(r))
    return
  end
  local px = ttl(r.tokens, r.ccap, r.crate, r.cfrac)
  if r.lent > 0 then
    px = px + lent_ttl(r.lent_until)
  end
  call('SET', key, text(r), 'PXAT', expires(px))
end

local function save()
  for i = 1, #order do
    local key = order[i]
    local r, l = records[key], limits_of[key]
    if l then
      l.write(key, r, l)
    else
      write(key, r)
    end
  end
end
