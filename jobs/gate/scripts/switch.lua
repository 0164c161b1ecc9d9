-- switch turns retries off for a scope until a moment, or on again with 0. What
-- has run out is removed on the way.
--
-- KEYS    1 hash: scope -> '<until> <order as JSON>'  2 list: audit
-- ARGV    1 scope: 'all', 'dependency <name>' or 'workload <name>'
--         2 until, ms, or 0  3 the order as JSON
-- Result  1, or 0: the moment has passed or is too far away
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local till = tonumber(ARGV[2])
if till > 0 and (till <= now or till > now + cfg.order_max) then return 0 end

local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if tonumber(string.match(all[i + 1], '^%d+')) <= now then redis.call('HDEL', KEYS[1], all[i]) end
end
if till > 0 then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', till) .. ARGV[3])
  redis.call('PEXPIRE', KEYS[1], cfg.keep)
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
redis.call('LPUSH', KEYS[2], string.format('%.0f ', now) .. ARGV[3])
redis.call('LTRIM', KEYS[2], 0, 99)
redis.call('PEXPIRE', KEYS[2], cfg.keep)
return 1
