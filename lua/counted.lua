-- Limits that count: fixed windows (f), the sliding counter (c), sliding logs (l) and
-- slots (s), by the last byte of their keys. The twin of package limit's Settle, Take and
-- Apply for them.
--
-- What a limit that counts says of itself, as no two of them need to be in one phase:
--   generation, as in the prelude
--   the share's rights   (of a take: only if the key is hot)
--   the floor's rights, debit, window in microseconds
--   phase, since, birth, and for how long the region must not have been heard
--   the floor's rights in limbo of a blind caller in phase floor or limbo, or -1
--   since when the limit is what it is, and what may have been in use   (only if some limit
--   has changed)
--   how many parts are remembered of what was in use; if any, the rights then, and each part with when
--   it was admitted, the oldest first   (only if some record is remembered)
--   of slots: how many the caller holds, then for each its name, its cost, and how much longer it is in use
counted = {}

do
  local LOG, SLOTS, FIXED = 108, 115, 102
  local ALL = 1e15 -- limit.MaxTokens: in use where that is not known

  -- tail: limit.tail.
  local function tail(l)
    if l.of == windows then
      return 2 * l.window
    end
    return l.window
  end

  -- limit_at reads what the limit of a key says of itself from ARGV[a] on.
  local function limit_at(a, key, always_share)
    local kind = byte(key, -1)
    local l = {kind = kind, of = windows, slot = 0, gen = tonumber(ARGV[a]), share = 0}
    if kind == LOG or kind == SLOTS then
      l.of = log
    end
    if l.gen > 0 or always_share then
      a = a + 1
      l.share = tonumber(ARGV[a])
    end
    l.floor, l.debit, l.window = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
    l.since, l.birth = tonumber(ARGV[a + 5]), tonumber(ARGV[a + 6])
    local wait, limbo = tonumber(ARGV[a + 7]), tonumber(ARGV[a + 8])
    if wait > 0 and heard_at then
      l.since = max(l.since, min(heard_at + wait, EXACT))
    end
    l.phase, l.holds = tonumber(ARGV[a + 4]), l.floor
    if (l.phase == LIVE and now > UNTIL) or (l.phase == FLOOR and now < l.since) then
      l.phase = LIMBO
    end
    if limbo >= 0 and l.phase == LIMBO then
      l.holds = limbo -- of the floor
    end
    if CHANGES then
      l.changed, l.before = tonumber(ARGV[a + 9]), tonumber(ARGV[a + 10])
      a = a + 2
    end
    if REMEMBERS then
      local parts = tonumber(ARGV[a + 9])
      a = a + 1
      if parts > 0 then
        l.memory, a = {rights = tonumber(ARGV[a + 9])}, a + 1
        for i = 1, parts do
          l.memory[i] = {used = tonumber(ARGV[a + 9]), at = tonumber(ARGV[a + 10])}
          a = a + 2
        end
      end
    end
    a = a + 9
    if kind == SLOTS then
      local held = tonumber(ARGV[a])
      a = a + 1
      if held > 0 then
        l.held = {}
        for i = 1, held do
          l.held[i] = {tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])}
          a = a + 3
        end
      end
    end
    return l, a
  end

  -- unknown_until: limit.View.unknownUntil.
  local function unknown_until(l, at)
    if l.kind == FIXED then
      return at - at % l.window + 2 * l.window
    end
    return at + tail(l)
  end

  -- block: limit.blocked.
  local function block(r, l, free)
    l.of.forget(r)
    r.free = min(free, EXACT)
  end

  -- set_back: limit.Use.setBack.
  local function set_back(r, l)
    local at, free, window = r.at, now + tail(l), r.window or 0
    r.at = now
    if at < free and window == 0 then
      r.free = max(r.free, at)
    elseif at >= free or window ~= l.window or r.label ~= (now - now % window) / window + 1 then
      block(r, l, free)
    end
  end

  -- under is what a share allows in the limit's phase.
  local function rights_under(l, share)
    if l.phase == LIVE then
      return share
    end
    if l.phase == FLOOR then
      return l.holds
    end
    return min(share, l.holds)
  end

  -- obey: limit.Record.obey, the rights in force of a trusted hot record.
  local function obey(r, l)
    if l.gen > 0 then
      if r.gen > l.gen and l.phase == LIVE and not lease_covers(r, l.changed or 0) then
        r.cap = min(r.cap, l.share)
      end
      if r.gen == l.gen then
        r.cap = l.share
        return rights_under(l, l.share)
      end
      if l.phase == FLOOR then
        return min(r.cap, l.holds)
      end
      return rights_under(l, r.cap)
    end
    if r.gen > -l.gen or l.phase == LIMBO then
      return min(r.cap, l.holds)
    end
    if l.phase == LIVE then
      r.hot, r.cap = false, 0 -- the left-over of a key that has cooled down
    end
    return l.holds
  end

  -- fresh: limit.freshUse, of a record of a cold key that is not trusted.
  local function fresh(found, l)
    local r = {hot = false, gen = 0, cap = 0}
    if l.birth ~= 0 then
      block(r, l, unknown_until(l, min(l.birth, now)))
    elseif found then
      block(r, l, unknown_until(l, now))
    else
      block(r, l, 0)
      if CHANGES and l.changed ~= 0 and l.of == windows then
        windows.forgotten(r, l)
      end
    end
    return r
  end

  -- settle: limit.settle. Returns the record, the rights in force, and 1 for amnesia.
  local function settle(r, l)
    local share, amnesia = l.holds, 0
    if r and r.stamp == STAMP and now < r.at then
      set_back(r, l)
    end
    if l.memory and not (r and r.stamp == STAMP) then -- limit.View.remembered
      r = {hot = l.gen > 0, gen = 0, cap = 0}
      if r.hot then
        share = rights_under(l, l.share)
        r.gen, r.cap = l.gen, l.share
      end
      r.free = 0
      l.of.forget(r)
      l.of.remember(r, l, l.memory)
    elseif r and r.stamp == STAMP and r.gen >= l.gen then
      if r.hot then
        share = obey(r, l)
      end
    elseif l.gen > 0 then
      share = rights_under(l, l.share)
      r = {hot = true, gen = l.gen, cap = l.share}
      block(r, l, unknown_until(l, now))
      amnesia = 1
    else
      r = fresh(r, l)
    end
    r.at, r.stamp = now, STAMP
    l.of.at(r, l)
    if l.debit > 0 then
      l.of.add(r, l, l.debit, 0)
    end
    if l.held then
      log.enter(r, l.held)
    end
    return r, share, amnesia
  end

  -- rights: limit.Use.rights.
  local function rights(r, most)
    if r.free > now then
      return 0
    end
    if r.held then
      return min(most, r.held)
    end
    return most
  end

  -- in_use: limit.Use.inUse.
  local function in_use(r, l)
    if r.free > now then
      return ALL
    end
    return l.of.known(r, l)
  end

  -- wait: limit.Use.wait.
  local function wait(r, l, most)
    local known = 0
    if l.of.known(r, l) > most then
      known = l.of.wait(r, l, most)
    end
    return max(r.free - now, known, 0)
  end

  -- retry: limit.Use.retry.
  local function retry(r, l, share, cost)
    if cost > share then
      return -1
    end
    if r.held then
      return l.window - now % l.window
    end
    return wait(r, l, share - cost)
  end

  local function write(key, r, l)
    if r.hot then
      call('SET', key, l.of.text(r))
      return
    end
    local lasts = max(tail(l), r.free - r.at, l.of.lasts(r)) -- limit.Record.Keep
    call('SET', key, l.of.text(r), 'PX', format('%.0f', floor(lasts / 1000) + floor(lasts / 50000) + 1001))
  end

  local function keep_counted(key, r, l)
    l.write = write
    limits_of[key] = l
    keep_record(key, r)
  end

  -- has tells whether a key is of a limit that counts: not b, not q.
  function counted.has(key)
    local kind = byte(key, -1)
    return kind ~= 98 and kind ~= 113
  end

  -- look is the first half of a take: limit.Record.look. It writes the answer to
  -- reply[n + 1] to reply[n + 5].
  function counted.look(key, a, price, reply, n)
    local l, amnesia, share
    l, a = limit_at(a, key, false)
    if l.kind == SLOTS then
      l.slot, l.lasts = tonumber(ARGV[a]), tonumber(ARGV[a + 1])
      a = a + 2
    end
    l.r, share, amnesia = settle(load(key, l.of.parse), l)
    keep_counted(key, l.r, l)
    local most, again = rights(l.r, share), 0
    local left = most - in_use(l.r, l)
    if left < price then
      again = retry(l.r, l, share, price)
    end
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = left, most, 0, again, amnesia
    return l, a
  end

  -- charge is the second half; at is where the answer begins.
  function counted.charge(l, price, allowed, reply, at)
    if allowed == 1 then
      l.of.add(l.r, l, price, l.slot)
      reply[at] = reply[at] - price
    end
    reply[at + 2] = wait(l.r, l, 0)
  end

  -- apply: limit.Apply. The change follows its view: generation, rights, the first window
  -- in which they count at once, 1 if the key returns to cold, deadline.
  function counted.apply(key, a, reply, n)
    local l
    l, a = limit_at(a, key, true)
    local gen, share, from = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
    local cool, deadline = ARGV[a + 3] == '1', tonumber(ARGV[a + 4])
    for i = 1, 6 do
      reply[n + i] = 0
    end
    a = a + 5
    if deadline ~= 0 and now > deadline then
      reply[n + 4] = 2
      return a
    end
    local r, amnesia, _ = load(key, l.of.parse), nil, nil
    local again = r and r.gen == gen and (r.hot or cool)
    if r and r.stamp == STAMP and r.gen >= gen and not again then
      reply[n + 4] = 1
      return a
    end
    r, _, amnesia = settle(r, l)
    l.of.hold(r, l, r.hot and r.cap or l.floor, share, from)
    r.hot, r.gen, r.cap = not cool, gen, cool and 0 or share
    keep_counted(key, r, l)
    local used = in_use(r, l)
    reply[n + 1], reply[n + 2], reply[n + 3] = used, max(0, rights(r, share) - used), amnesia
    reply[n + 5] = wait(r, l, share)
    if l.kind == FIXED then
      reply[n + 6] = (now - now % l.window) / l.window + 1
    end
    return a
  end

  -- adjust: limit.Adjust. What is adjusted follows its view: the slot, when it was charged,
  -- the window then, reserved, used, debt.
  function counted.adjust(key, a, reply, n)
    local l, share, amnesia
    l, a = limit_at(a, key, true)
    local slot, at, window = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
    local back, debt = tonumber(ARGV[a + 3]) - tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5])
    local r, refunded, charged
    r, share, amnesia = settle(load(key, l.of.parse), l)
    keep_counted(key, r, l)
    local most = rights(r, share)
    refunded, charged = 0, 0
    if l.kind == SLOTS then
      refunded = log.release(r, slot)
    elseif back < 0 then
      charged = max(0, min(-back, most - in_use(r, l) + debt))
      if charged > 0 then
        l.of.add(r, l, charged, 0)
      end
    elseif back > 0 and amnesia == 0 and r.free <= now and window == l.window and at <= now then
      refunded = l.of.give_back(r, l, at, back)
    end
    reply[n + 1], reply[n + 2], reply[n + 3] = refunded, 0, charged
    local used = in_use(r, l)
    reply[n + 4], reply[n + 5], reply[n + 6] = max(0, most - used), amnesia, used
    return a + 6
  end
end
