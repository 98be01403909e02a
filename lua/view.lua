-- Shared by apply, settle and adjust, after the prelude: the view of a bucket, as text.

-- read_view reads into v the view that stands at ARGV[a], and the floor that holds. It
-- returns where the view ends.
local function read_view(v, a)
  for i = 0, 8 do
    v[i] = tonumber(ARGV[a + i])
  end
  a = a + 9
  local lowcap, lowrate, lowfrac
  if FLOOR_SINCE ~= 0 then
    lowcap, lowrate, lowfrac = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
    a = a + 3
  end
  v.hcap, v.hrate, v.hfrac = v[4], v[5], v[6]
  if BLIND then
    v.hcap, v.hrate, v.hfrac, lowcap, lowrate, lowfrac = in_limbo(
      tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), v[4], v[5], v[6], lowcap, lowrate, lowfrac)
    a = a + 3
  end
  v.lowcap, v.lowrate, v.lowfrac, v.change = lowcap, lowrate, lowfrac, nil
  if CHANGES then
    v.change = change_of(tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]),
      tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5]))
    a = a + 6
  end
  v.memory = nil
  if REMEMBERS then
    v.memory = memory_of(tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]))
    a = a + 3
  end
  return a
end

-- settle_by is settle by a view that was read.
local function settle_by(v, r)
  return settle(r, v[0], v[1], v[2], v[3], v.hcap, v.hrate, v.hfrac, v[7], v[8], v.lowcap, v.lowrate, v.lowfrac, v.change, v.memory)
end
