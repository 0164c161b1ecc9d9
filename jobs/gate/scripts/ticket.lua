-- ticket decides about one call and takes what it needs, or nothing; see serve.lua.
--
-- Arguments  permit; kind: first | retry | manual; lease, ms; a number from 0 to 1
--            that spreads waits; workload; job
-- Answer     'go', end of the lease, ''
--            'wait', ask again from, reason
--            'stop', when time alone will have earned a token, reason
local takes = 6
local needs = {'gen', 'limit', 'paused', 'held'}
if ARGV[2] ~= 'first' then needs = {'gen', 'limit', 'paused', 'held', 'retry', 'manual', 'filled', 'firsts'} end
local function turn(permit, kind, lease, spread, workload, job)
  -- Somebody asks again because the answer was lost. The call may be under way
  -- already, so nothing that has happened since can change it.
  local till = record[permit] and (ends[permit] or tonumber(redis.call('ZSCORE', PERMITS, permit)))
  if till then return 'go', till, '' end

  local function wait(from, reason)
    -- Whoever waits for one moment comes back spread over `busy` after it.
    return 'wait', from + math.ceil(cfg.busy * tonumber(spread)), reason
  end
  if st.paused > now or st.held > now then
    if st.paused >= st.held then return wait(st.paused, 'dependency_paused') end
    return wait(st.held, 'rate_limited')
  end
  if st.breaker == 'open' then return wait(st.open_until, 'breaker_open') end
  if st.breaker == 'half_open' and st.out + st.good >= cfg.probes then return wait(now + cfg.busy, 'breaker_open') end

  -- Probes are few enough; what was sent before the breaker opened may still fill
  -- the dependency to its utmost, and a probe may not go beyond that.
  local places = cfg.concurrency
  if st.breaker == 'closed' then
    places = math.floor(st.limit)
    if kind == 'retry' then places = math.max(1, math.floor(st.limit * (1 - cfg.first_reserve))) end
  end
  if in_use() >= places then return wait(now + cfg.busy, 'overloaded') end

  if kind ~= 'first' then
    fill()
    local rate = cfg.retry_per_second
    if kind == 'manual' then rate = rate * cfg.manual_share end
    if st[kind] < 1 then return 'stop', one_token_at(st[kind], rate), 'retry_budget' end
    put(kind, st[kind] - 1)
  end

  till = now + tonumber(lease)
  grant(permit, till, table.concat({written(st.gen), kind, written(now), workload, job}, ' '))
  if st.breaker == 'half_open' then put('out', st.out + 1) end
  return 'go', till, ''
end
