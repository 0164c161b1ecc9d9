-- due hands out entries of the index whose check is due and pushes them on, so
-- that replicas share the work. It also forgets the sizes of expired inputs and the
-- rates that are unused again, and is how a process says that it works, and on how
-- many jobs at the same time.
-- ARGV 1 most entries  2 ms until their next check  3 process:slots, or empty  4 ms until it is taken for gone
-- -> now in ms, then the members
local now = clock()
redis.call('ZREMRANGEBYSCORE', SLOTS, '-inf', '(' .. text(now))
redis.call('ZREMRANGEBYSCORE', USED, '-inf', text(now))
if ARGV[3] ~= '' then redis.call('ZADD', SLOTS, text(now + ARGV[4]), ARGV[3]) end
for _, job in ipairs(redis.call('ZRANGEBYSCORE', INPUTS, '-inf', text(now), 'LIMIT', 0, ARGV[1])) do forget(job) end
local answer = {text(now)}
for i, job in ipairs(redis.call('ZRANGEBYSCORE', INDEX, '-inf', text(now), 'LIMIT', 0, ARGV[1])) do
  redis.call('ZADD', INDEX, text(now + ARGV[2]), job)
  answer[i + 1] = job
end
return answer
