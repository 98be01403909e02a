-- take: decides groups of limits, each all or nothing: limit.Take.
--
-- KEYS[2..]  one per limit, group by group; groups may repeat keys, and a later
--            one sees what an earlier one took; within a group keys differ
-- ARGV[11]   packed: deadline on this clock (0: none), and how many shapes there are: what
--            limits of one rule have in common; then each:
--              floor: capacity, rate, fraction
--              debit, extra
--              low: capacity, rate, fraction   (only if floors have changed)
--              limbo floor: capacity, rate, fraction   (only if the caller is blind)
--              change: since, slow: rate, fraction, before: capacity, rate, fraction
--                (only if some limit has changed)
--            then per group: cost, number of limits (below 0 if some count or have a cost of
--            their own; 100 more, whatever the sign, if there are chunks), then per limit:
--              its cost   (only if the number of limits was below 0)
--              for a limit that counts nothing more, else:
--              the number of its shape, from 1 on
--              generation (0 or less: the key is cold)
--              share: capacity, rate, fraction   (only if the key is hot)
--              memory: 1 or 0, tokens, extra   (only if some record is remembered)
--              chunk: was, until, keep, back, want, least, life   (only if there are chunks)
-- ARGV[12..] for each limit that counts what counted.lua says, and of slots the slot and
--            for how long it is held at most (0: its window)
-- Reply      {now, packed: per group: 1 or 0 for allowed, then per limit:
--              tokens left with extra, capacity with extra, rate, fraction of the
--              bucket in force, 1 for amnesia; for a limit that counts: rights left,
--              rights in force, reset, retry, 1 for amnesia; at the very end, for each
--              limit that has a chunk in ARGV: lent now, when all that the caller has of it
--              ends, 1 if what it had was still lent}
--             {-2, now} after the deadline: nothing was read or written
-- Writes every record named, with its TTL if it is cold.
--
-- Packed numbers are 8 bytes each, IEEE 754, the least byte first, all in one text: a text
-- for each takes Redis longer than deciding does.

local unpacked, packed_numbers = struct.unpack, ARGV[11]
local reply, n = {now}, 1
local deadline, shape_count, p = unpacked('<dd', packed_numbers)
if deadline ~= 0 and now > deadline then
  return {-2, now}
end
local a, k = 12, 2
local shapes = {} -- with the floor that holds
for i = 1, shape_count do
  local fcap, frate, ffrac, debit, extra
  fcap, frate, ffrac, debit, extra, p = unpacked('<ddddd', packed_numbers, p)
  local shape = {fcap = fcap, frate = frate, ffrac = ffrac, debit = debit, extra = extra}
  local lowcap, lowrate, lowfrac
  if FLOOR_SINCE ~= 0 then
    lowcap, lowrate, lowfrac, p = unpacked('<ddd', packed_numbers, p)
  end
  shape.hcap, shape.hrate, shape.hfrac = fcap, frate, ffrac
  if BLIND then
    local cap, rate, frac
    cap, rate, frac, p = unpacked('<ddd', packed_numbers, p)
    shape.hcap, shape.hrate, shape.hfrac, lowcap, lowrate, lowfrac =
      in_limbo(cap, rate, frac, fcap, frate, ffrac, lowcap, lowrate, lowfrac)
  end
  shape.lowcap, shape.lowrate, shape.lowfrac = lowcap, lowrate, lowfrac
  if CHANGES then
    local since, rate, frac, bcap, brate, bfrac
    since, rate, frac, bcap, brate, bfrac, p = unpacked('<dddddd', packed_numbers, p)
    shape.change = change_of(since, rate, frac, bcap, brate, bfrac)
  end
  shape.cap, shape.kept_cap = shape.hcap + extra, fcap + extra
  shape.usual = FLOOR_SINCE == 0 and debit == 0 and now >= BIRTH and not shape.change -- see usual.lua
  shapes[i] = shape
end
-- Of the limits of a group; touched are the records, key_of the keys of the usual ones. In records
-- these are false: one that is named a second time is read into it, for else each naming would read
-- and write it.
local touched, reply_at, prices, key_of = {}, {}, {}, {}
local chunk_of = {} -- what the limits of a group say of their chunks, in tables that the next one uses
local chunks, loans = false, nil -- whether the group has chunks, and the end of the reply; nil if there are none
local told = 0 -- numbers in loans

-- lend is the end of a take for the limit of a chunk: limit.Outcome.borrowed.
local function lend(c, r, reply, at)
  local keep = c.keep or 0
  local others, grant = r.lent - keep, min(c.want, floor(r.tokens / 2))
  local hot = c.gen > 0
  if grant <= 0 or grant < c.least or phase == LIMBO or r.extra > 0 or r.hot ~= hot
    or (hot and r.gen ~= c.gen) or (not hot and r.gen > -c.gen)
    or (others > 0 and 4 * (r.lent_until - now) < c.life) then
    grant = 0
  else
    r.tokens, r.lent = r.tokens - grant, r.lent + grant
    if others == 0 then
      r.lent_until = max(r.lent_until, min(now + c.life, EXACT))
    end
    reply[at] = reply[at] - grant
  end
  local till = 0
  if keep + grant > 0 then
    till = r.lent_until
  end
  loans[told + 1], loans[told + 2], loans[told + 3] = grant, till, c.keep and 1 or 0
  told = told + 3
end

local all = #packed_numbers
while p <= all do
  local cost, limits
  cost, limits, p = unpacked('<dd', packed_numbers, p)
  n = n + 1
  local verdict, allowed = n, 1
  local mixed = limits < 0
  if mixed then
    limits = -limits
  end
  chunks = limits > 100
  if chunks then
    limits, loans = limits - 100, loans or {}
  end
  for i = 1, limits do
    local key, price = KEYS[k], cost
    k = k + 1
    if mixed then
      price, p = unpacked('<d', packed_numbers, p)
      prices[i] = price
    end
    if counted and counted.has(key) then
      touched[i], a = counted.look(key, a, price, reply, n)
    else
      local number, gen, scap, srate, sfrac = 0, 0, 0, 0, 0
      number, gen, p = unpacked('<dd', packed_numbers, p)
      if gen > 0 then
        scap, srate, sfrac, p = unpacked('<ddd', packed_numbers, p)
      end
      local memory
      if REMEMBERS then
        local is, left, more
        is, left, more, p = unpacked('<ddd', packed_numbers, p)
        memory = memory_of(is, left, more)
      end
      local shape = shapes[number]
      local r, found = records[key], nil
      if not r then
        found = text_at(key)
        if r == nil and shape.usual and gen <= 0 and not memory then
          r = usual_record(i, found, shape)
        end
      end
      local extra, ecap, erate, efrac, amnesia = shape.extra, shape.hcap, shape.hrate, shape.hfrac, 0
      if r and r.usual then
        records[key], key_of[i] = false, key
      else
        if not settle then
          parse, settle, spend, keep, save = define_records(
            EXACT, MAX_CHUNK_LIFE, EPOCH, SHARES_LAST, floor, max, min, format, match, byte,
            tonumber, call, now, STAMP, SINCE, BIRTH, FLOOR_SINCE, LIMBO, LIVE, FLOOR, PHASE, phase,
            KNOWN, PLAIN, PLAIN_NOW, LENT, LENT_NOW, clamp, refill, earn_lent, out, ttl, text_at,
            records, limits_of, order, expires, lent_ttl, slower)
        end
        r, ecap, erate, efrac, amnesia =
          settle(r or parse(found), gen, scap, srate, sfrac, ecap, erate, efrac, shape.debit, extra,
            shape.lowcap, shape.lowrate, shape.lowfrac, shape.change, memory)
        keep(key, r, shape.fcap + extra, shape.frate, shape.ffrac)
      end
      if chunks then
        local c = chunk_of[i] or {}
        local was, till, kept, back
        was, till, kept, back, c.want, c.least, c.life, p = unpacked('<ddddddd', packed_numbers, p)
        if amnesia == 0 then
          kept = bring_back(r, ecap, extra, was, till, kept, back)
        else
          kept = nil
        end
        c.gen, c.keep, chunk_of[i] = gen, kept, c
      end
      local tokens, most = r.tokens, shape.cap
      if not r.usual then
        tokens, most = tokens + r.extra, ecap + (r.hot and r.extra or extra)
      end
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = tokens, most, erate, efrac, amnesia
      touched[i] = r
    end
    reply_at[i] = n + 1
    if reply[n + 1] < price then
      allowed = 0
    end
    n = n + 5
  end
  reply[verdict] = allowed
  for i = 1, limits do
    local r, at, price = touched[i], reply_at[i], cost
    if mixed then
      price = prices[i]
    end
    if r.usual then
      if allowed == 1 then
        r.tokens = r.tokens - price
        reply[at] = r.tokens
      end
      if chunks then
        lend(chunk_of[i], r, reply, at)
      end
      usual_write(key_of[i], r)
    elseif r.kind then
      counted.charge(r, price, allowed, reply, at)
    else
      if allowed == 1 then
        reply[at] = reply[at] - price
        if r.extra > 0 then
          reply[at + 1] = reply[at + 1] - spend(r, price)
        else
          r.tokens = r.tokens - price
        end
      end
      if chunks then
        lend(chunk_of[i], r, reply, at)
      end
    end
  end
end
if save then
  save()
end
if loans then
  for i = 1, told do
    reply[n + i] = loans[i]
  end
end
