local struct = {}

-- bytes are the eight of a whole number as a double, the least first.
local function bytes(n)
  if n == 0 then
    return string.rep('\0', 8)
  end
  local sign = n < 0 and 128 or 0
  local fraction, exponent = math.frexp(math.abs(n))
  local rest, biased, out = (fraction * 2 - 1) * 4503599627370496, exponent + 1022, {}
  for i = 1, 6 do
    out[i] = string.char(rest % 256)
    rest = math.floor(rest / 256)
  end
  out[7] = string.char(rest + biased % 16 * 16)
  out[8] = string.char(sign + math.floor(biased / 16))
  return table.concat(out)
end

function struct.pack(format, ...)
  local out, numbers = {}, {...}
  for i = 1, #format - 1 do
    out[i] = bytes(numbers[i])
  end
  return table.concat(out)
end

function struct.unpack(format, text, from)
  local out, at, count = {}, from or 1, #format - 1
  for i = 1, count do
    local b = {string.byte(text, at, at + 7)}
    local rest, biased = b[7] % 16, b[8] % 128 * 16 + math.floor(b[7] / 16)
    for j = 6, 1, -1 do
      rest = rest * 256 + b[j]
    end
    local n = 0
    if biased > 0 then
      n = math.ldexp(1 + rest / 4503599627370496, biased - 1023)
    end
    if b[8] >= 128 then
      n = -n
    end
    out[i], at = n, at + 8
  end
  out[count + 1] = at
  return unpack(out, 1, count + 1)
end

