-- apply: gives keys new shares: limit.Apply.
--
-- KEYS[2..]  one per change; a later change of one key sees the earlier
-- ARGV[11]   1 if the caller takes a lease with these changes, of which there may be
--            none: heard becomes now, after they were made
-- ARGV[12..] per change:
--              the view before: generation (0 or less: the key was cold), share: capacity,
--              rate, fraction (always there), floor: capacity, rate, fraction, debit, extra,
--              low: capacity, rate, fraction (only if floors have changed),
--              limbo floor: capacity, rate, fraction (only if the caller is blind),
--              change: as in take.lua (only if some limit has changed)
--              the change: generation, share: capacity, rate, fraction, grant,
--              1 if the key returns to cold, and 2 more if a chunk comes back, deadline on
--              this clock (0: none)
--              was, until, back of the chunk   (only if one comes back)
--            for a limit that counts what counted.lua says
-- Reply      {now, then per change: released, tokens left with extra (below 0: owed), 1 for amnesia,
--             1 for stale or 2 for late, due, in use; for a limit that counts: in use,
--             rights left, 1 for amnesia, 1 for stale or 2 for late, due, label}
-- Writes every record but those found stale or late, with its TTL if it is cold.

local HEARD_TTL = 86400000000 -- lua.HeardTTL, milliseconds

local lease = ARGV[11] == '1'
local reply, n = {now}, 1
local a, k, argc, v = 12, 2, #ARGV, {}

-- reshare: limit.Record.reshare.
local function reshare(r, ecap, extra, gen, cap, rate, frac, grant)
  if not r.hot then
    r.extra = max(0, min(r.tokens, max(0, extra - r.lent)))
    r.tokens = r.tokens - r.extra
  end
  r.hot, r.gen, r.cap, r.rate, r.frac = true, gen, cap, rate, frac
  local lent, had, stays = out(r, extra), r.tokens, r.tokens
  if had > 0 then
    local held = had + lent
    if cap < ecap then
      -- IEEE doubles, in the order of limit.shrunk
      held = min(min(held, cap), floor(held * (cap / ecap)))
    end
    stays = min(had, max(0, held - lent))
  end
  r.tokens, r.carry = clamp(stays + grant, r.carry, less(cap, lent))
  return had - stays
end

-- change makes the change of a bucket that stands at ARGV[a].
local function change(key)
  a = read_view(v, a)
  local extra = v[8]
  local gen, cap, rate, frac = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local grant, cool, deadline = tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5]), tonumber(ARGV[a + 6])
  a = a + 7
  local was, till, back = 0, 0, 0
  if cool >= 2 then
    was, till, back = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
    cool, a = cool - 2, a + 3
  end
  for i = 1, 6 do
    reply[n + i] = 0
  end
  local r = load(key, parse)
  if deadline ~= 0 and now > deadline then
    reply[n + 4] = 2
    return
  end
  local asks = v[0] > 0 and v[0] == gen and grant == 0 and cool == 0 -- limit.Change.asks
  if r and r.stamp == STAMP and r.gen >= gen and not (r.gen == gen and asks) then
    reply[n + 2], reply[n + 4] = r.tokens + r.extra, 1
    return
  end
  local ecap, amnesia, _
  r, ecap, _, _, amnesia = settle_by(v, r)
  if amnesia == 0 then
    bring_back(r, ecap, extra, was, till, 0, back)
  end
  if r.gen ~= gen or amnesia == 1 then
    reply[n + 1] = reshare(r, ecap, extra, gen, cap, rate, frac, grant)
  end
  local lent = out(r, extra)
  if lent > cap then
    reply[n + 5], reply[n + 6] = r.lent_until - now + 1, lent
  end
  if cool == 1 then
    cool_down(r, v[4] + extra)
  end
  keep(key, r, v[4] + extra, v[5], v[6])
  reply[n + 2], reply[n + 3] = r.tokens + r.extra, amnesia
end

while a <= argc do
  local key = KEYS[k]
  k = k + 1
  if counted.has(key) then
    a = counted.apply(key, a, reply, n)
  else
    change(key)
  end
  n = n + 6
end
save()
if lease then
  call('SET', KEYS[#KEYS], format('%.0f', now), 'PX', HEARD_TTL)
end
return reply
