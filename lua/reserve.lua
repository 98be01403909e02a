-- reserve: take, and a memory of it under a name, in one call. This text stands before
-- the prelude, for what it is given in addition comes off the ends of KEYS and ARGV.
--
-- KEYS[#]    the key of the reservation
-- ARGV[# - 2] for how many milliseconds it is kept    ARGV[# - 1] the caller's text
-- ARGV[#]    1 if it is kept only where the first group was allowed
-- Reply      that of take, or {-3, what is kept} if there is a reservation by that name
--            already: then nothing was read or written but that
--
-- What is kept is text: "<stamp> <clock> <the numbers of take's reply>", a line break,
-- and the caller's text. settle adds two lines: "<clock> <the numbers of its reply>" and
-- the caller's note.

local must, text_of, keep_for = table.remove(ARGV), table.remove(ARGV), table.remove(ARGV)
local reservation = table.remove(KEYS)
