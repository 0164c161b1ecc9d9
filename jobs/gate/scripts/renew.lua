-- renew moves the end of a permit's lease, never beyond cfg.longest after the
-- ticket.
--
-- KEYS    see state.lua
-- ARGV    1 permit  2 lease, ms
-- Result  the lease's new end, ms as a string; '0': no such permit (any more)
load(ARGV[1])
save()
if not mine then return '0' end
local since = tonumber(string.match(mine, '^%d+ %a+ (%d+)'))
local ends = string.format('%.0f', math.min(now + tonumber(ARGV[2]), since + cfg.longest))
redis.call('ZADD', PERMITS, 'XX', ends, ARGV[1])
return ends
