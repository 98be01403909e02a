-- The end of a take: its reply as take.lua says, the clock and the numbers after it in one text.
-- They go in parts, for a function of the library gets no more than some thousand.
local parts, count, most = {}, 0, 256
for from = 2, #reply, most do
  local till = min(#reply, from + most - 1)
  count = count + 1
  parts[count] = struct.pack('<' .. string.rep('d', till - from + 1), unpack(reply, from, till))
end
return {now, table.concat(parts)}
