-- switches lists what is switched off, and the last orders.
--
-- KEYS    1 hash: scope -> '<until> <order as JSON>'  2 list: audit
-- ARGV    none
-- Result  {{order as JSON, ...} of what is off now, {'<at> <order as JSON>', ...}}
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local off = {}
for _, entry in ipairs(redis.call('HVALS', KEYS[1])) do
  local till, order = string.match(entry, '^(%d+) (.*)$')
  if tonumber(till) > now then off[#off + 1] = order end
end
return {off, redis.call('LRANGE', KEYS[2], 0, -1)}
