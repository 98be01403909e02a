-- packed is the reply of a take, as take.lua says: the clock, and the numbers after it in one
-- text. They go in parts, for a function of the library gets no more than some thousand.
local function packed(reply)
  local parts, count, all, most = {}, 0, #reply, 256
  for from = 2, all, most do
    local till = min(all, from + most - 1)
    count = count + 1
    parts[count] = struct.pack('<' .. string.rep('d', till - from + 1), unpack(reply, from, till))
  end
  return {reply[1], table.concat(parts)}
end
