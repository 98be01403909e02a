-- take: decides groups of limits, each all or nothing: limit.Take.
--
-- KEYS[2..]  one per limit, group by group; groups may repeat keys, and a later
--            one sees what an earlier one took; within a group keys differ
-- ARGV[7..]  per group: cost, number of limits, then per limit:
--              generation (0 or less: the key is cold)
--              share: capacity, rate, fraction   (only if the key is hot)
--              floor: capacity, rate, fraction
--              debit
-- Reply      {now, then per group: 1 or 0 for allowed, then per limit:
--              tokens left, capacity, rate, fraction of the bucket in force,
--              1 for amnesia}
-- Writes every record named, with its TTL if it is cold.

local reply, n = {now}, 1
local argc, a, k = #ARGV, 7, 2
local touched, tokens_at = {}, {}
while a <= argc do
  local cost, limits = tonumber(ARGV[a]), tonumber(ARGV[a + 1])
  a = a + 2
  n = n + 1
  local verdict, allowed = n, 1
  for i = 1, limits do
    local key = KEYS[k]
    k = k + 1
    local gen, scap, srate, sfrac = tonumber(ARGV[a]), 0, 0, 0
    if gen > 0 then
      scap, srate, sfrac = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
      a = a + 3
    end
    local fcap, frate, ffrac = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
    local r, ecap, erate, efrac, amnesia =
      settle(load(key), gen, scap, srate, sfrac, fcap, frate, ffrac, tonumber(ARGV[a + 4]))
    a = a + 5
    keep(key, r, fcap, frate, ffrac)
    touched[i], tokens_at[i] = r, n + 1
    if r.tokens < cost then
      allowed = 0
    end
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] =
      r.tokens, ecap, erate, efrac, amnesia
    n = n + 5
  end
  reply[verdict] = allowed
  if allowed == 1 then
    for i = 1, limits do
      local r = touched[i]
      r.tokens = r.tokens - cost
      reply[tokens_at[i]] = r.tokens
    end
  end
end
save()
return reply
