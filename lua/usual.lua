-- The usual record is that of most takes: of a cold bucket, with STAMP and without gen, and
-- nothing is lent of it; or there is none. Of such a one no table is made: what settle, the
-- charge and save come to is a few numbers, and it is written when its group is decided. Should
-- a later group of the call name it again, it is read again.

-- usual_shape tells, as shape.usual, whether a shape's limits may have the usual record, and
-- adds what these have in common: the capacity with extra, now and to be kept for.
local function usual_shape(shape)
  shape.usual = FLOOR_SINCE == 0 and shape.debit == 0 and now >= BIRTH and not shape.change
  shape.cap, shape.kept_cap = shape.hcap + shape.extra, shape.fcap + shape.extra
end

-- usual_settle is settle of a record by its text: tokens and carry, or nil if it is not the
-- usual one.
local function usual_settle(text, shape)
  if not text then
    if not shape.fresh then
      local r = fresh_cold(nil, shape.cap, shape.hrate, shape.hfrac)
      shape.fresh, shape.fresh_carry = r.tokens, r.carry
    end
    return shape.fresh, shape.fresh_carry
  end
  local tokens, at, carry = match(text, PLAIN)
  if not tokens then
    return nil
  end
  tokens, at, carry = tokens + 0, at + 0, carry + 0
  if tokens > 1e15 or tokens < -1e15 or at > now or carry > 999999 then
    return nil -- nonsense, or the clock was set back
  end
  return refill(tokens, carry, shape.cap, shape.hrate, shape.hfrac, at, now)
end

-- usual_save is save.
local function usual_save(key, tokens, carry, shape)
  local px = ttl(tokens, shape.kept_cap, shape.frate, shape.ffrac)
  call('SET', key, format(PLAIN_NOW, tokens, carry), 'PXAT', expires(px))
end
