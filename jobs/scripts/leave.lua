-- leave takes a job out of the index. Safe to repeat.
-- ARGV 1 the job  2 ms for which its input is still kept; 0: it is gone
--      3 ms that it held a slot in all its attempts; 0: unknown  4 how many jobs a mean looks back on
--      5 ms after which a mean says nothing any more
--      6, 7 of a job that never started: what its owner's rates of starts and retries get back, ms
local job, keep = ARGV[1], tonumber(ARGV[2])
local owner, workload = string.match(job, '^([^/]+)/[^/]+/([^/]+)/')
if redis.call('ZREM', INDEX, job) == 1 then
  count(LIVE, {owner, '/' .. workload}, -1)
  if tonumber(ARGV[6]) > 0 then redis.call('ZINCRBY', USED, -ARGV[6], owner) end
  if tonumber(ARGV[7]) > 0 then redis.call('ZINCRBY', USED, -ARGV[7], owner .. '/retries') end
  local worked = tonumber(ARGV[3])
  if worked > 0 then
    local seen = redis.call('HINCRBY', PACE, '#' .. workload, 1)
    local mean = stored(redis.call('HGET', PACE, workload))
    mean = mean + (worked - mean) / math.min(seen, tonumber(ARGV[4]))
    redis.call('HSET', PACE, workload, string.format('%.1f', mean))
    redis.call('PEXPIRE', PACE, ARGV[5])
  end
end
if keep <= 0 then
  forget(job)
elseif redis.call('HEXISTS', SIZES, job) == 1 then
  local till = clock() + keep
  redis.call('ZREM', FAILED, failed_entry(job, stored(redis.call('ZSCORE', INPUTS, job))))
  redis.call('ZADD', INPUTS, text(till), job)
  redis.call('ZADD', FAILED, 0, failed_entry(job, till))
end
return 1
