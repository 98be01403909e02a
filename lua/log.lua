-- The use of sliding logs (l) and of slots (s), every admission by itself, the twin of
-- limit.Use. The text of a record:
--
--   c <stamp> <at> <n> <sum> <span> <gen> <cap> <free>;<entry> <entry> ...   h when hot
--
-- without the zeros before the semicolon, and without that if there are no entries. n
-- entries cost sum together and end over a time of span. An entry is
-- <until>[:<cost>[:<slot>]]: the first one's until is an instant, each other's the
-- distance to the one before. A cost of one token is left out where there is no slot.
--
-- The entries stay text: those that have ended leave at its beginning, new ones come at
-- its end. Only what fits neither is done on a table of them all.
local log = {}
do
  local MAX_ENTRIES, TOKEN = 1000, 1000000
  local MOST_ENTRY = MAX_ENTRIES * TOKEN
  local MOST = {EXACT, EXACT, EXACT, EXACT, EXACT, 1e15, EXACT}

  function log.forget(r)
    r.n, r.sum, r.first, r.last, r.list, r.tail = 0, 0, 0, 0, '', nil
  end

  -- remember: limit.logUse.
  local insert
  function log.remember(r, l, m)
    for _, d in ipairs(m) do
      local till = min(min(d.at, now) + l.window, EXACT)
      if d.used > 0 and till > now then
        insert(r, till, d.used, 0)
      end
    end
  end

  -- suffix is what follows an entry's until.
  local function suffix(cost, slot)
    if slot > 0 then
      return format(':%.0f:%.0f', cost, slot)
    end
    if cost ~= TOKEN then
      return format(':%.0f', cost)
    end
    return ''
  end

  -- parse leaves the entries as they are; list is what follows the first one's until.
  function log.parse(text)
    if not text then
      return nil
    end
    local cut = string.find(text, ';', 1, true) or #text + 1
    local hot, stamp, n = head(string.sub(text, 1, cut - 1), MOST)
    if not stamp then
      return {gen = 0}
    end
    local r = {
      hot = hot, stamp = stamp, at = n[1], n = n[2] or 0, sum = n[3] or 0,
      gen = n[5] or 0, cap = n[6] or 0, free = n[7] or 0,
    }
    local first, after = match(text, '^(%d+)()', cut + 1)
    r.first, r.list = exact(first, EXACT) or 0, string.sub(text, after or #text + 1)
    r.last = r.first + (n[4] or 0)
    if (r.n > 0) ~= (r.first > 0) or (cut <= #text) ~= (r.n > 0) then
      return {gen = 0}
    end
    return r
  end

  function log.text(r)
    local span = r.last - r.first
    local start = join(r, {r.at, r.n, r.sum, span, r.gen, r.cap, r.free})
    if r.n == 0 then
      return start
    end
    return format('%s;%.0f%s', start, r.first, r.list)
  end

  -- entry reads what follows an until at a place in the list: cost, slot, and the
  -- distance to the next entry with the place after it, or nil.
  local function entry(list, place)
    local cost, slot = TOKEN, 0
    local digits, after = match(list, '^:(%d+)()', place)
    if digits then
      cost, place = tonumber(digits), after
      digits, after = match(list, '^:(%d+)()', place)
      if digits then
        slot, place = tonumber(digits), after
      end
    end
    digits, after = match(list, '^ (%d+)()', place)
    return cost, slot, tonumber(digits or nil), after
  end

  -- all makes a table of the entries, each {until, cost, slot}.
  local function all(r)
    local entries, till, place = {}, r.first, 1
    for i = 1, r.n do
      local cost, slot, step, after = entry(r.list, place)
      entries[i] = {till, cost, slot}
      till, place = till + (step or 0), after or #r.list + 1
    end
    return entries
  end

  -- put is the way back from all.
  local function put(r, entries)
    local parts, sum = {}, 0
    for i = 1, #entries do
      local e = entries[i]
      parts[i] = suffix(e[2], e[3])
      if i > 1 then
        parts[i] = format(' %.0f', e[1] - entries[i - 1][1]) .. parts[i]
      end
      sum = sum + e[2]
    end
    r.n, r.sum, r.list, r.tail = #entries, sum, table.concat(parts), nil
    r.first, r.last = entries[1][1], entries[#entries][1]
  end

  -- at: limit.Use.at.
  function log.at(r)
    if r.free <= now then
      r.free = 0
    end
    local place, list = 1, r.list
    while r.n > 0 and r.first <= now do
      local cost, _, step, after = entry(list, place)
      r.n, r.sum = r.n - 1, r.sum - cost
      if r.n > 0 and not step then -- not what log.text wrote
        local till = r.last
        log.forget(r)
        r.free = till
        return
      end
      r.first, place = r.first + (step or 0), after or #list + 1
    end
    if r.n == 0 then
      log.forget(r)
    elseif place > 1 then
      r.list = string.sub(list, place)
    end
  end

  function log.known(r)
    return r.sum
  end

  -- merge is the way of limit.insert where an entry does not come at the end.
  local function merge(r, till, cost, slot)
    local entries = all(r)
    if slot == 0 and #entries >= MAX_ENTRIES then
      for i = #entries, 1, -1 do
        if entries[i][3] == 0 then
          till, cost = max(till, entries[i][1]), cost + entries[i][2]
          table.remove(entries, i)
          break
        end
      end
    end
    local i = 1
    while entries[i] and (entries[i][1] < till or (entries[i][1] == till and entries[i][3] < slot)) do
      i = i + 1
    end
    local e = entries[i]
    if slot == 0 and e and e[1] == till and e[3] == 0 then
      e[2] = min(e[2] + cost, MOST_ENTRY)
    else
      table.insert(entries, i, {till, min(cost, MOST_ENTRY), slot})
    end
    put(r, entries)
  end

  -- finish writes the last entry, one of this call, at its place in the list.
  local function finish(r, place, step, cost, slot)
    local before = string.sub(r.list, 1, place - 1)
    if step then
      before = before .. format(' %.0f', step)
    end
    r.list = before .. suffix(cost, slot)
    r.tail = {place, step, cost, slot}
  end

  -- take_off takes an amount off an entry, that of a slot or the one without that ends at
  -- an instant, and returns how much it had.
  local function take_off(r, till, slot, amount)
    local entries = all(r)
    for i = 1, #entries do
      local e = entries[i]
      if e[3] == slot and (slot > 0 or e[1] == till) then
        amount = min(amount, e[2])
        e[2] = e[2] - amount
        if e[2] == 0 then
          table.remove(entries, i)
        end
        if #entries == 0 then
          log.forget(r)
        else
          put(r, entries)
        end
        return amount
      end
    end
    return 0
  end

  -- give_back: limit.Use.giveBackEntry.
  function log.give_back(r, l, at, amount)
    return take_off(r, at + l.window, 0, amount)
  end

  -- release: limit.Release.
  function log.release(r, slot)
    return take_off(r, 0, slot, EXACT)
  end

  -- insert counts one more entry.
  function insert(r, till, cost, slot)
    local tail = r.tail
    local last = tail and till == r.last
    local full = slot == 0 and r.n >= MAX_ENTRIES
    if r.n == 0 then
      cost = min(cost, MOST_ENTRY)
      r.n, r.sum, r.first, r.last = 1, cost, till, till
      finish(r, 1, nil, cost, slot)
    elseif last and slot == 0 and tail[4] == 0 and not full then
      local both = min(tail[3] + cost, MOST_ENTRY)
      r.sum = r.sum - tail[3] + both
      finish(r, tail[1], tail[2], both, 0)
    elseif (till > r.last or (last and slot > tail[4])) and not full then
      cost = min(cost, MOST_ENTRY)
      r.n, r.sum = r.n + 1, r.sum + cost
      finish(r, #r.list + 1, till - r.last, cost, slot)
      r.last = till
    else
      merge(r, till, cost, slot)
    end
  end

  -- has: limit.Use.has. The text of a name may be a part of another number.
  local function has(r, slot)
    if string.find(r.list, format(':%.0f', slot), 1, true) then
      for _, e in ipairs(all(r)) do
        if e[3] == slot then
          return true
        end
      end
    end
    return false
  end

  function log.add(r, l, cost, slot)
    if slot > 0 and has(r, slot) then
      return
    end
    local till = now + l.window
    if slot > 0 and l.lasts > 0 then
      till = now + min(l.lasts, l.window)
    end
    insert(r, till, cost, slot)
  end

  -- enter: limit.Use.enter.
  function log.enter(r, held)
    for _, s in ipairs(held) do
      if not has(r, s[1]) then
        insert(r, min(now + s[3], EXACT), s[2], s[1])
      end
    end
  end

  -- wait: limit.Use.waitForEntries.
  function log.wait(r, _, most)
    if most == 0 then
      return r.last - now
    end
    local left, till, place = r.sum, r.first, 1
    for _ = 1, r.n do
      local cost, _, step, after = entry(r.list, place)
      left = left - cost
      if left <= most then
        return till - now
      end
      till, place = till + (step or 0), after or #r.list + 1
    end
    return 0
  end

  function log.hold()
  end

  -- lasts is for how long after its last use the record has something to remember.
  function log.lasts(r)
    return r.last - r.at
  end
end
