-- apply: gives keys new shares: limit.Apply.
--
-- KEYS[2..]  one per change; a later change of one key sees the earlier
-- ARGV[7..]  per change:
--              the view before: generation (0 or less: the key was cold), share: capacity,
--              rate, fraction (always there), floor: capacity, rate, fraction, debit
--              the change: generation, share: capacity, rate, fraction, grant,
--              1 if the key returns to cold, deadline on this clock (0: none)
-- Reply      {now, then per change: released, tokens left, 1 for amnesia, 1 for stale
--             or 2 for late}
-- Writes every record but those found stale or late, with its TTL if it is cold.

local reply, n = {now}, 1
local a = 7
for k = 2, #KEYS do
  local key = KEYS[k]
  local v = {}
  for i = 0, 14 do
    v[i] = tonumber(ARGV[a + i])
  end
  a = a + 15
  local gen, cap, rate, frac, grant, cold = v[8], v[9], v[10], v[11], v[12], v[13]
  local r = load(key)
  if v[14] ~= 0 and now > v[14] then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = 0, 0, 0, 2
  elseif r and r.stamp == STAMP and r.gen >= gen then
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = 0, r.tokens, 0, 1
  else
    local ecap, amnesia, _
    r, ecap, _, _, amnesia = settle(r, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7])
    local had = r.tokens
    if cap < ecap then
      -- IEEE doubles, in the order of limit.shrunk
      r.tokens = min(min(had, cap), floor(had * (cap / ecap)))
    end
    local released = had - r.tokens
    r.tokens, r.carry = clamp(r.tokens + grant, r.carry, cap)
    r.gen, r.cap, r.rate, r.frac = gen, cap, rate, frac
    r.hot = cold == 0
    if not r.hot then
      r.tokens, r.carry = clamp(r.tokens, r.carry, v[4])
    end
    keep(key, r, v[4], v[5], v[6])
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = released, r.tokens, amnesia, 0
  end
  n = n + 4
end
save()
return reply
