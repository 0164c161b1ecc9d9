-- admit takes a job into the index of open jobs, if there is room. The index
-- cannot overshoot: this is the one place where it grows. Safe to repeat.
-- KEYS 1 index (scored by the next check)  2 inputs (scored by their end)  3 sizes (hash)  4 sum of sizes
-- ARGV 1 member  2 bytes of its input  3 limit of jobs  4 limit of bytes  5 ms until the first check
--      6 ms until the input is forgotten at the latest
-- -> {1 admitted | 0 full | -1 inputs full, jobs now}
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return {1, redis.call('ZCARD', KEYS[1])} end
local open = redis.call('ZCARD', KEYS[1])
if open >= tonumber(ARGV[3]) then return {0, open} end
local sum = tonumber(redis.call('GET', KEYS[4]) or '0')
if sum + tonumber(ARGV[2]) > tonumber(ARGV[4]) then return {-1, open} end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[5])), ARGV[1])
if redis.call('HSETNX', KEYS[3], ARGV[1], ARGV[2]) == 1 then redis.call('INCRBY', KEYS[4], ARGV[2]) end
redis.call('ZADD', KEYS[2], string.format('%.0f', now + tonumber(ARGV[6])), ARGV[1])
return {1, open + 1}
