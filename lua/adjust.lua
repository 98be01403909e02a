-- Shared by settle and by adjust, after the prelude: replaces what limits were charged by
-- what was used of it, limit.Adjust. KEYS[2..] and ARGV[11..] are those of settle.lua, whose
-- reply this makes.

local deadline = tonumber(ARGV[11])
if deadline ~= 0 and now > deadline then
  return {-2, now}
end
local reply, n, a = {now}, 1, 12

-- adjust: limit.Adjust of the bucket that stands at ARGV[a].
local function adjust(key)
  local v = {}
  a = read_view(v, a)
  local extra = v[8]
  local at, room = tonumber(ARGV[a]), tonumber(ARGV[a + 1])
  local back, debt = tonumber(ARGV[a + 2]) - tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4])
  a = a + 5
  local r, most, rate, frac, amnesia = settle_by(v, load(key, parse))
  local refunded, spare, charged = 0, 0, 0
  if back < 0 then
    charged = max(0, min(-back, r.tokens + r.extra + debt))
    spend(r, charged)
  elseif amnesia == 0 then
    if not r.hot then
      most = most + extra
    end
    if room >= 0 then -- limit.Adjustment.overflow
      back = max(0, back - max(0, refill(0, 0, 1e15, rate, frac, at, now) - max(0, room - out(r, extra))))
    end
    refunded = max(0, min(back, most - out(r, extra) - r.tokens))
    r.tokens = r.tokens + refunded
    if r.hot and r.gen == v[0] then
      spare = back - refunded
    end
  end
  keep(key, r, v[4] + extra, v[5], v[6])
  reply[n + 1], reply[n + 2], reply[n + 3] = refunded, spare, charged
  reply[n + 4], reply[n + 5], reply[n + 6] = r.tokens + r.extra, amnesia, 0
end

local function adjust_all()
  for k = 2, #KEYS do
    if a > #ARGV then
      break -- the key of heard is left
    end
    local key = KEYS[k]
    if counted.has(key) then
      a = counted.adjust(key, a, reply, n)
    else
      adjust(key)
    end
    n = n + 6
  end
  save()
end
