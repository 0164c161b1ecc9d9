-- ticket decides about one call and takes what it needs, or nothing.
--
-- KEYS    see state.lua
-- ARGV    1 permit  2 kind: first | retry | manual  3 lease, ms
--         4 a number from 0 to 1 that spreads waits  5 workload  6 job
-- Result  {'go', end of the lease, now, ''}
--         {'wait', ask again from, now, reason}
--         {'stop', when time alone will have earned a token, now, reason}
--         Times are ms as strings.
local permit, kind, lease, spread = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if kind == 'first' then
  load(permit, 'gen', 'limit', 'paused', 'held')
else
  load(permit, 'gen', 'limit', 'paused', 'held', 'retry', 'manual', 'filled', 'firsts')
end

local function answer(verdict, at, reason)
  save()
  return {verdict, string.format('%.0f', at), string.format('%.0f', now), reason}
end

-- Somebody asks again because the answer was lost. The call may be under way
-- already, so nothing that has happened since can change it.
if mine then return answer('go', tonumber(redis.call('ZSCORE', PERMITS, permit)), '') end

-- Whoever waits for one moment comes back spread over `busy` after it.
local busy = cfg.busy * (1 + spread)
local later = cfg.busy * spread

if st.paused > now or st.held > now then
  if st.paused >= st.held then return answer('wait', st.paused + later, 'dependency_paused') end
  return answer('wait', st.held + later, 'rate_limited')
end
if st.breaker == 'open' then return answer('wait', st.open_until + later, 'breaker_open') end
if st.breaker == 'half_open' and st.out + st.good >= cfg.probes then
  return answer('wait', now + busy, 'breaker_open')
end

-- Probes are few enough; what was sent before the breaker opened may still fill
-- the dependency to its utmost, and a probe may not go beyond that.
local places = cfg.concurrency
if st.breaker == 'closed' then
  places = math.floor(st.limit)
  if kind == 'retry' then places = math.max(1, math.floor(st.limit * (1 - cfg.first_reserve))) end
end
local in_use = redis.call('ZCARD', PERMITS)
if in_use >= places then
  return answer('wait', now + busy, 'overloaded')
end

if kind ~= 'first' then
  fill()
  local rate = cfg.retry_per_second
  if kind == 'manual' then rate = rate * cfg.manual_share end
  if st[kind] < 1 then return answer('stop', one_token_at(st[kind], rate), 'retry_budget') end
  put(kind, st[kind] - 1)
end

local ends = now + math.min(lease, cfg.longest)
redis.call('ZADD', PERMITS, string.format('%.0f', ends), permit)
if in_use == 0 then redis.call('PEXPIRE', PERMITS, cfg.keep) end -- the key is new
put('p/' .. permit, string.format('%.0f %s %.0f %s %s', st.gen, kind, now, ARGV[5], ARGV[6]))
if st.breaker == 'half_open' then put('out', st.out + 1) end
return answer('go', ends, '')
