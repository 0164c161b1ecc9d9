-- report gives a permit back with what became of its call; see serve.lua. Only the
-- first report of a permit counts, and none after its lease has ended.
--
-- Arguments  permit; result: unsent | good | bad | slow (rate limited) | nothing;
--            how long the provider told the account to wait, ms; 0: it did not
-- Answer     'counted', 0, ''
--            'lost', 0, ''; there is no such permit any more, or never was
local takes = 3
local needs = {'gen', 'limit', 'firsts', 'slot', 'calls'}
local function turn(permit, result, hint)
  local text = record[permit]
  if not text then return 'lost', 0, '' end
  withdraw(permit)
  local gen, kind = string.match(text, '^(%d+) (%a+)')

  if result ~= 'unsent' then
    if kind == 'first' then put('firsts', st.firsts + 1) end
  elseif kind ~= 'first' then
    fill()
    put(kind, math.min(kind == 'retry' and cfg.retry_burst or cfg.manual_burst, st[kind] + 1))
  end
  -- What a provider tells one call of many is for its job alone.
  if result == 'slow' then
    count(0, 0, 1)
    local calls, _, slow = seen()
    if hint ~= '0' and slow >= (calls + slow) * cfg.failure_ratio then
      put('held', math.max(st.held, now + math.min(tonumber(hint), cfg.hold_max)))
    end
  end

  -- A call of an earlier state of the breaker says nothing about the present one.
  if gen ~= written(st.gen) then return 'counted', 0, '' end

  if st.breaker == 'half_open' then
    put('out', st.out - 1)
    if result == 'good' then
      put('good', st.good + 1)
      if st.good >= cfg.probes then
        put('trips', 0)
        put('limit', cfg.probes)
        put('cut', 0)
        forget()
        move('closed')
      end
    elseif result == 'bad' or result == 'slow' then
      open(now)
    end
  elseif result == 'good' or result == 'bad' or result == 'slow' then
    if result == 'good' then
      if st.limit < cfg.concurrency then put('limit', math.min(cfg.concurrency, st.limit + cfg.growth)) end
    elseif now - st.cut >= 1000 then
      put('limit', math.max(cfg.probes, st.limit * cfg.shrink))
      put('cut', now)
    end
    if result ~= 'slow' then
      count(1, result == 'bad' and 1 or 0, 0)
      if result == 'bad' then
        local calls, bad = seen()
        if calls >= cfg.window_calls and bad >= calls * cfg.failure_ratio then open(now) end
      end
    end
  end
  return 'counted', 0, ''
end
