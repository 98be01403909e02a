-- The usual record is that of most takes: of a cold bucket, with STAMP and without gen; or there is
-- none. For such a one no table is made: the tables of one group serve the next. It is settled in
-- fewer steps, and written when its group is decided. Should a later group of the call name it
-- again, it is read again.

-- usual_records are the tables for the usual records of a group, by the limit's place in it.
local usual_records = {}

-- usual_record is settle of the usual record of the limit i of a group, by the record's text. It is
-- nil if this is not the usual one.
local function usual_record(i, text, shape)
  local tokens, carry, lent, lent_until = nil, nil, 0, 0
  if not text then
    if not shape.fresh then -- limit.freshCold
      shape.fresh, shape.fresh_carry = shape.cap, 0
      if BIRTH ~= 0 then
        shape.fresh, shape.fresh_carry = refill(0, 0, shape.cap, shape.hrate, shape.hfrac, BIRTH, now)
      end
    end
    tokens, carry = shape.fresh, shape.fresh_carry
  else
    local at
    tokens, at, carry = match(text, PLAIN)
    if not tokens then
      lent, lent_until, tokens, at, carry = match(text, LENT)
      if not tokens then
        return nil
      end
      lent, lent_until = lent + 0, lent_until + 0
      if lent == 0 or lent > 1e15 or lent_until > EXACT then
        return nil -- nonsense
      end
    end
    tokens, at, carry = tokens + 0, at + 0, carry + 0
    if tokens > 1e15 or tokens < -1e15 or at > now or carry > 999999 then
      return nil -- nonsense, or the clock was set back
    end
    if lent == 0 then
      tokens, carry = refill(tokens, carry, shape.cap, shape.hrate, shape.hfrac, at, now)
    else
      tokens, carry = earn_lent(tokens, carry, lent, lent_until, shape.cap, shape.hrate, shape.hfrac, at, now)
      if now > lent_until then
        lent, lent_until = 0, 0
      end
    end
  end
  local r = usual_records[i]
  if not r then
    r = {hot = false, usual = true, stamp = STAMP, at = now, gen = 0, extra = 0}
    usual_records[i] = r
  end
  r.tokens, r.carry, r.lent, r.lent_until, r.shape = tokens, carry, lent, lent_until, shape
  return r
end

-- usual_write is write of a usual record.
local function usual_write(key, r)
  local tokens, lent, shape = r.tokens, r.lent, r.shape
  local px = ttl(tokens, shape.kept_cap, shape.frate, shape.ffrac)
  if lent == 0 then
    call('SET', key, format(PLAIN_NOW, tokens, r.carry), 'PXAT', expires(px))
  else
    local lent_until = r.lent_until
    call('SET', key, format(LENT_NOW, lent, lent_until, tokens, r.carry), 'PXAT', expires(px + lent_ttl(lent_until)))
  end
end
