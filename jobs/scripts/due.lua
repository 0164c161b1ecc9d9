-- due hands out entries of the index whose check is due and pushes them on, so
-- that replicas share the work. It also forgets the sizes of expired inputs, and
-- is how a process says that it works, and on how many jobs at the same time.
-- KEYS as admit's
-- ARGV 1 most entries  2 ms until their next check  3 process:slots, or empty  4 ms until it is taken for gone
-- -> now in ms, then the members
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local stamp = string.format('%.0f', now)
redis.call('ZREMRANGEBYSCORE', KEYS[7], '-inf', '(' .. stamp)
if ARGV[3] ~= '' then redis.call('ZADD', KEYS[7], string.format('%.0f', now + tonumber(ARGV[4])), ARGV[3]) end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', stamp, 'LIMIT', 0, ARGV[1])) do
  local size = redis.call('HGET', KEYS[3], member)
  if size then redis.call('DECRBY', KEYS[4], size) end
  redis.call('HDEL', KEYS[3], member)
  redis.call('ZREM', KEYS[2], member)
end
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', stamp, 'LIMIT', 0, ARGV[1])
local later = string.format('%.0f', now + tonumber(ARGV[2]))
local answer = {stamp}
for i, member in ipairs(due) do
  redis.call('ZADD', KEYS[1], later, member)
  answer[i + 1] = member
end
return answer
