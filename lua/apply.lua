-- apply: gives keys new shares: limit.Apply.
--
-- KEYS[2..]  one per change; a later change of one key sees the earlier
-- ARGV[11]   1 if the caller takes a lease with these changes, of which there may be
--            none: heard becomes now, after they were made
-- ARGV[12..] per change:
--              the view before: generation (0 or less: the key was cold), share: capacity,
--              rate, fraction (always there), floor: capacity, rate, fraction, debit, extra,
--              low: capacity, rate, fraction (only if floors have changed),
--              limbo floor: capacity, rate, fraction (only if the caller is blind)
--              the change: generation, share: capacity, rate, fraction, grant,
--              1 if the key returns to cold, deadline on this clock (0: none)
--            for a limit that counts what counted.lua says
-- Reply      {now, then per change: released, tokens left with extra, 1 for amnesia,
--             1 for stale or 2 for late; for a limit that counts: in use, rights left,
--             1 for amnesia, 1 for stale or 2 for late, due, label}
-- Writes every record but those found stale or late, with its TTL if it is cold.

local HEARD_TTL = 86400000000 -- lua.HeardTTL, milliseconds

local lease = ARGV[11] == '1'
local reply, n = {now}, 1
local a, k, argc, v = 12, 2, #ARGV, {}

-- change makes the change of a bucket that stands at ARGV[a].
local function change(key)
  for i = 0, 8 do
    v[i] = tonumber(ARGV[a + i])
  end
  a = a + 9
  local extra, lowcap, lowrate, lowfrac = v[8], nil, nil, nil
  if FLOOR_SINCE ~= 0 then
    lowcap, lowrate, lowfrac = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
    a = a + 3
  end
  local hcap, hrate, hfrac = v[4], v[5], v[6] -- the floor that holds
  if BLIND then
    hcap, hrate, hfrac, lowcap, lowrate, lowfrac = in_limbo(a, v[4], v[5], v[6], lowcap, lowrate, lowfrac)
    a = a + 3
  end
  local gen, cap, rate, frac = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local grant, cool, deadline = tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5]), tonumber(ARGV[a + 6])
  a = a + 7
  local r = load(key, parse)
  if deadline ~= 0 and now > deadline then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = 0, 0, 0, 2
  elseif r and r.stamp == STAMP and r.gen >= gen then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = 0, math.max(0, r.tokens + r.extra), 0, 1
  else
    local ecap, amnesia, _
    r, ecap, _, _, amnesia =
      settle(r, v[0], v[1], v[2], v[3], hcap, hrate, hfrac, v[7], extra, lowcap, lowrate, lowfrac)
    if not r.hot then
      r.extra = math.max(0, min(r.tokens, extra))
      r.tokens = r.tokens - r.extra
    end
    local had = r.tokens
    if cap < ecap then
      -- IEEE doubles, in the order of limit.shrunk
      r.tokens = min(min(had, cap), floor(had * (cap / ecap)))
    end
    local released = had - r.tokens
    r.tokens, r.carry = clamp(r.tokens + grant, r.carry, cap)
    r.gen, r.cap, r.rate, r.frac = gen, cap, rate, frac
    r.hot = true
    if cool == 1 then
      cool_down(r, v[4] + extra)
    end
    keep(key, r, v[4] + extra, v[5], v[6])
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = released, math.max(0, r.tokens + r.extra), amnesia, 0
  end
end

while a <= argc do
  local key = KEYS[k]
  k = k + 1
  if counted.has(key) then
    a = counted.apply(key, a, reply, n)
    n = n + 6
  else
    change(key)
    n = n + 4
  end
end
save()
if lease then
  call('SET', KEYS[#KEYS], format('%.0f', now), 'PX', HEARD_TTL)
end
return reply
