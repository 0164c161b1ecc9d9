-- switched tells some callers whether retries are off for them.
--
-- KEYS    1 hash: scope -> '<until> <order as JSON>'
-- ARGV    for each the scope of its workload and that of its dependency, or ''
-- Result  for each, in the same order, {'go' or 'stop', the latest end of what is off
--         for it, now, reason}; times are ms
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local found = redis.call('HMGET', KEYS[1], 'all', unpack(ARGV))
local function ends(i)
  return found[i] and tonumber(string.match(found[i], '^%d+')) or 0
end
local answers = {}
for i = 1, #ARGV, 2 do
  local till = math.max(ends(1), ends(i + 1), ends(i + 2))
  answers[#answers + 1] = till > now and {'stop', till, now, 'retries_disabled'} or {'go', now, now, ''}
end
return answers
