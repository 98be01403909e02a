-- The end of settle, after the prelude.
local kept = redis.pcall('GET', reservation)
if kept ~= was then
  if type(kept) ~= 'string' then
    kept = ''
  end
  return {-3, kept}
end
if now > ends then
  return {-4, now}
end
adjust_all()
local numbers = {}
for i = 1, n do
  numbers[i] = format('%.0f', reply[i])
end
call('APPEND', reservation, '\n' .. table.concat(numbers, ' ') .. '\n' .. note)
return reply
