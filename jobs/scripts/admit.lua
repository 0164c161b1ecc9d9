-- admit takes a job into the index of open jobs, if there is room. The index
-- cannot overshoot: this is the one place where it grows. Safe to repeat.
-- KEYS 1 index (scored by the next check)  2 inputs (scored by their end)  3 sizes (hash)  4 sum of sizes
--      5 live (hash: an owner, or / and a workload, to its open jobs)
--      6 pace (hash: a workload to the mean ms that its jobs hold a slot, # and it to how many were seen)
--      7 slots (sorted set: process:slots, scored by when it is taken for gone)
-- ARGV 1 member  2 bytes of its input  3 limit of jobs  4 limit of bytes  5 ms until the first check
--      6 ms until the input is forgotten at the latest  7 limit of the owner's jobs, 0: none
--      8 ms in which it has to be done, 0: whenever  9 slots that can be busy at the same time at most, 0: all
--     10 how many jobs of a workload must have been seen before its mean says anything
--     11 the failed job's member whose input this one takes over, or empty: it is counted already
-- -> {1 admitted | 0 full | -1 inputs full | -2 the owner has too many | -3 it would not be done in time,
--     jobs now, ms after which there is room (-3)}
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local open = redis.call('ZCARD', KEYS[1])
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return {1, open} end
if open >= tonumber(ARGV[3]) then return {0, open} end
local sum = tonumber(redis.call('GET', KEYS[4]) or '0')
if ARGV[11] ~= '' then sum = sum - tonumber(redis.call('HGET', KEYS[3], ARGV[11]) or '0') end
if sum + tonumber(ARGV[2]) > tonumber(ARGV[4]) then return {-1, open} end
local owner, workload = string.match(ARGV[1], '^([^/]+)/[^/]+/([^/]+)/')
local most = tonumber(ARGV[7])
if most > 0 and tonumber(redis.call('HGET', KEYS[5], owner) or '0') >= most then return {-2, open} end

-- late is how many ms after its time the job would be done, by what is known;
-- nil if it would be in time, or if nothing is known.
local function late(within, atonce, enough)
  if within <= 0 then return nil end
  local flat, pace = redis.call('HGETALL', KEYS[6]), {}
  for i = 1, #flat, 2 do pace[flat[i]] = tonumber(flat[i + 1]) end
  if (pace['#' .. workload] or 0) < enough then return nil end
  local ahead = 0
  for name, mean in pairs(pace) do
    if (pace['#' .. name] or 0) >= enough then
      ahead = ahead + mean * tonumber(redis.call('HGET', KEYS[5], '/' .. name) or '0')
    end
  end
  if ahead + pace[workload] <= within then return nil end -- a single slot would do
  local slots = 0
  for _, process in ipairs(redis.call('ZRANGEBYSCORE', KEYS[7], string.format('%.0f', now), '+inf')) do
    slots = slots + (tonumber(string.match(process, '(%d+)$')) or 0)
  end
  if atonce > 0 then slots = math.min(slots, atonce) end
  if slots <= 0 then return nil end
  local over = ahead / slots + pace[workload] - within
  return over > 0 and math.ceil(over) or nil
end
local over = late(tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]))
if over then return {-3, open, over} end

redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[5])), ARGV[1])
redis.call('HINCRBY', KEYS[5], owner, 1)
redis.call('HINCRBY', KEYS[5], '/' .. workload, 1)
if redis.call('HSETNX', KEYS[3], ARGV[1], ARGV[2]) == 1 then redis.call('INCRBY', KEYS[4], ARGV[2]) end
redis.call('ZADD', KEYS[2], string.format('%.0f', now + tonumber(ARGV[6])), ARGV[1])
return {1, open + 1}
