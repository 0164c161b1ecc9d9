-- switched tells whether retries are off for any of some scopes.
--
-- KEYS    1 hash: scope -> '<until> <order as JSON>'
-- ARGV    scopes
-- Result  {until, now}, ms as strings; until is '0' when they are on, and the
--         latest end when several scopes are off
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local found = redis.call('HMGET', KEYS[1], unpack(ARGV))
local till = 0
for i = 1, #ARGV do
  local ends = found[i] and tonumber(string.match(found[i], '^%d+')) or 0
  if ends > now then till = math.max(till, ends) end
end
return {string.format('%.0f', till), string.format('%.0f', now)}
