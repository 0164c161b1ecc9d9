-- leave takes a job out of the index. Safe to repeat.
-- KEYS as admit's
-- ARGV 1 member  2 ms for which its input is still kept; 0: it is gone
--      3 ms that it held a slot in all its attempts; 0: unknown  4 how many jobs a mean looks back on
--      5 ms after which a mean says nothing any more
local owner, workload = string.match(ARGV[1], '^([^/]+)/[^/]+/([^/]+)/')
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then
  for _, field in ipairs{owner, '/' .. workload} do
    -- A job that was taken in before jobs were counted may not take another's place.
    if redis.call('HINCRBY', KEYS[5], field, -1) <= 0 then redis.call('HDEL', KEYS[5], field) end
  end
  local worked = tonumber(ARGV[3])
  if worked > 0 then
    local seen = redis.call('HINCRBY', KEYS[6], '#' .. workload, 1)
    local mean = tonumber(redis.call('HGET', KEYS[6], workload) or '0')
    mean = mean + (worked - mean) / math.min(seen, tonumber(ARGV[4]))
    redis.call('HSET', KEYS[6], workload, string.format('%.1f', mean))
    redis.call('PEXPIRE', KEYS[6], ARGV[5])
  end
end
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
return 1
