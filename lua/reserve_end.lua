-- The end of reserve, after the prelude and take, which is a function here.
local earlier = redis.pcall('GET', reservation)
if type(earlier) == 'string' then
  return {-3, earlier}
end
local reply, told = take()
if not told then
  return reply
end
if must ~= '1' or reply[2] == 1 then
  local numbers = {}
  for i = 1, told do
    numbers[i] = format('%.0f', reply[i])
  end
  call('SET', reservation, STAMP .. ' ' .. table.concat(numbers, ' ') .. '\n' .. text_of, 'PX', keep_for)
end
