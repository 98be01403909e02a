-- The use of fixed windows (f) and of the sliding counter (c), the twin of limit.Use:
-- limit/use.go and limit/wait.go. The text of a record:
--
--   c <stamp> <at> <window> <cur> <prev> <gen> <cap> <free> <held>     h when hot
--
-- without the zeros at its end. at lies in the window that cur was admitted in; free is
-- until when nothing may be admitted; held is one more than what counts of the share in
-- this window, 0 if all of it does. A window of 0: nothing was ever counted.
local windows = {}
do
  local MOST_USE = 2e15 -- limit.mostUse
  local HALF = 67108864 -- 2^26
  local FIXED = 102     -- 'f'
  local MOST = {EXACT, 4e15, MOST_USE, MOST_USE, EXACT, 1e15, EXACT, 1e15 + 1}

  -- over is a * b / c rounded down, and the rest. The quotient of doubles is off by one
  -- at most; the rest, counted exactly in halves of 26 bits, tells. All are below 2^52,
  -- c and the result below 4.5e15.
  local function over(a, b, c)
    local q = floor(a * b / c)
    local a0, b0, c0, q0 = a % HALF, b % HALF, c % HALF, q % HALF
    local a1, b1, c1, q1 = (a - a0) / HALF, (b - b0) / HALF, (c - c0) / HALF, (q - q0) / HALF
    local high = (a1 * b1 - q1 * c1) * HALF + ((a1 * b0 - q1 * c0) + (a0 * b1 - q0 * c1))
    local rest = high * HALF + (a0 * b0 - q0 * c0)
    if rest < 0 then
      return q - 1, rest + c
    end
    if rest >= c then
      return q + 1, rest - c
    end
    return q, rest
  end

  function windows.forget(r)
    r.window, r.label, r.cur, r.prev, r.held = 0, 0, 0, 0, nil
  end

  -- forgotten: limit.forgotten.
  function windows.forgotten(r, l)
    local current, at = (now - now % l.window) / l.window + 1, min(l.changed, now)
    local changed = (at - at % l.window) / l.window + 1
    if changed == current then
      r.window, r.label, r.cur = l.window, current, l.before
    elseif changed == current - 1 and l.kind ~= FIXED then
      r.window, r.label, r.prev = l.window, current, l.before
    end
  end

  -- remember: the part of limit.Memory.use that is of windows.
  function windows.remember(r, l, m)
    local function label(at)
      return (at - at % l.window) / l.window + 1
    end
    local current = label(now)
    if label(m[#m].at) > current then
      r.free = min(now + 2 * l.window, EXACT)
      return
    end
    r.window, r.label = l.window, current
    for _, d in ipairs(m) do
      local at = label(d.at)
      if at == current then
        r.cur = min(r.cur + d.used, MOST_USE)
        if l.kind == FIXED then
          r.held = m.rights
        end
      elseif at == current - 1 and l.kind ~= FIXED then
        r.prev = min(r.prev + d.used, MOST_USE)
      end
    end
  end

  function windows.parse(text)
    if not text then
      return nil
    end
    local hot, stamp, n = head(text, MOST)
    if not stamp then
      return {gen = 0}
    end
    local r = {
      hot = hot, stamp = stamp, at = n[1], window = n[2] or 0, label = 0, cur = n[3] or 0, prev = n[4] or 0,
      gen = n[5] or 0, cap = n[6] or 0, free = n[7] or 0,
    }
    if n[8] and n[8] > 0 then
      r.held = n[8] - 1
    end
    if r.window > 0 then
      r.label = floor(r.at / r.window) + 1
    elseif r.cur > 0 or r.prev > 0 or r.held then
      return {gen = 0}
    end
    return r
  end

  function windows.text(r)
    local held = 0
    if r.held then
      held = r.held + 1
    end
    return join(r, {r.at, r.window, r.cur, r.prev, r.gen, r.cap, r.free, held})
  end

  -- at: limit.Use.at.
  function windows.at(r, l)
    if r.window == 0 and r.free == 0 then
      return
    end
    if r.free <= now then
      r.free = 0
    end
    local label = (now - now % l.window) / l.window + 1
    if r.window ~= l.window then
      r.cur, r.prev = min(r.cur + r.prev, MOST_USE), 0
    elseif label ~= r.label then
      r.prev = label == r.label + 1 and r.cur or 0
      r.cur, r.held = 0, nil
    end
    if l.kind == FIXED then
      r.prev = 0
    end
    r.window, r.label = l.window, label
  end

  function windows.known(r, l)
    if r.prev == 0 then
      return r.cur
    end
    local part, rest = over(r.prev, l.window - now % l.window, l.window)
    if rest > 0 then
      part = part + 1
    end
    return r.cur + part
  end

  function windows.add(r, l, cost)
    r.window, r.label = l.window, (now - now % l.window) / l.window + 1
    r.cur = min(r.cur + cost, MOST_USE)
  end

  -- give_back: the part of limit.Use.giveBack that is of windows.
  function windows.give_back(r, l, at, amount)
    local label = (at - at % l.window) / l.window + 1
    if label == r.label then
      amount = min(amount, r.cur)
      r.cur = r.cur - amount
    elseif label == r.label - 1 then
      amount = min(amount, r.prev)
      r.prev = r.prev - amount
    else
      return 0
    end
    return amount
  end

  -- wait: limit.Use.waitForKnown, where more than most is known to count.
  function windows.wait(r, l, most)
    local left = l.window - now % l.window
    if l.kind == FIXED then
      return left
    end
    if r.cur <= most then
      return left - over(most - r.cur, l.window, r.prev)
    end
    return left + l.window - over(most, l.window, r.cur)
  end

  -- hold: limit.Use.hold.
  function windows.hold(r, l, had, most, from)
    if l.kind ~= FIXED or r.free > now then
      return
    end
    r.window, r.label = l.window, (now - now % l.window) / l.window + 1
    if from ~= 0 and r.label >= from then
      r.held = nil
    elseif most > had and not r.held then
      r.held = had
    end
  end

  function windows.lasts()
    return 0
  end
end
