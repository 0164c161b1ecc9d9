-- leave takes a job out of the index. Safe to repeat.
-- KEYS as admit's
-- ARGV 1 member  2 ms for which its input is still kept; 0: it is gone
-- -> jobs left
redis.call('ZREM', KEYS[1], ARGV[1])
local keep = tonumber(ARGV[2])
local size = redis.call('HGET', KEYS[3], ARGV[1])
if size and keep > 0 then
  local t = redis.call('TIME')
  local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
  redis.call('ZADD', KEYS[2], string.format('%.0f', now + keep), ARGV[1])
elseif size then
  redis.call('HDEL', KEYS[3], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('DECRBY', KEYS[4], size)
end
return redis.call('ZCARD', KEYS[1])
