-- The texts of records of limits that count: numbers, after how the record stands.

-- head reads the numbers at the beginning of a record's text, each at most most[i]; nil
-- if it makes no sense.
local function head(text, most)
  local letter, stamp, rest = match(text, '^([ch]) (%x+)( [ %d]*)$')
  if not letter or string.find(rest, '  ', 1, true) or string.sub(rest, -1) == ' ' then
    return nil
  end
  local n, count = {}, 0
  for digits in string.gmatch(rest, '%d+') do
    count = count + 1
    n[count] = most[count] and exact(digits, most[count])
    if not n[count] then
      return nil
    end
  end
  return letter == 'h', stamp, n
end

-- join writes what head reads.
local function join(r, n)
  local count = #n
  while n[count] == 0 do
    count = count - 1
  end
  for i = 1, count do
    n[i] = format('%.0f', n[i])
  end
  return (r.hot and 'h ' or 'c ') .. r.stamp .. ' ' .. table.concat(n, ' ', 1, count)
end
