-- settle: ends a reservation: limit.Adjust for each of its limits, once. This text stands
-- before the prelude; what it is given in addition comes off the ends of KEYS and ARGV.
--
-- KEYS[#]    the key of the reservation; KEYS[2..] the records of its limits
-- ARGV[11]   deadline on this clock (0: none)
-- ARGV[12..] per limit: the view, as of apply; for a bucket then when it was charged, the room
--            it had then for a denied request (else -1), what was reserved, used, and the
--            debt it may have; for a limit that counts what counted.lua says
-- ARGV[# - 2] what the caller read under the key    ARGV[# - 1] the reservation's end on
--            this clock    ARGV[#] the caller's note
-- Reply      {now, then per limit: refunded, spare, charged, tokens (below 0: a debt) or
--             rights left, 1 for amnesia, in use (of a limit that counts; else 0)}
--            {-2, now} after the deadline, {-3, what is kept or ''} if it is not what was
--            read, {-4, now} after its end: nothing was written
-- Writes every record named, with its TTL if it is cold, and adds two lines to what is
-- kept, whose TTL stays; see reserve.lua.

local note, ends, was = table.remove(ARGV), tonumber(table.remove(ARGV)), table.remove(ARGV)
local reservation = table.remove(KEYS)
