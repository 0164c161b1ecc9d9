-- report gives a permit back with what became of its call. Only the first report
-- of a permit counts, and none after its lease has ended.
--
-- KEYS    see state.lua
-- ARGV    1 permit  2 result: unsent | good | bad | slow (rate limited) | nothing
--         3 how long the provider told the account to wait, ms; 0: it did not
-- Result  1 counted, 0 no such permit (any more)
local permit, result, hint = ARGV[1], ARGV[2], tonumber(ARGV[3])
load(permit, 'gen', 'limit', 'firsts', 'slot', 'calls')
if not mine then
  save()
  return 0
end
redis.call('ZREM', PERMITS, permit)
redis.call('HDEL', STATE, 'p/' .. permit)
local gen, kind = string.match(mine, '^(%d+) (%a+)')

if result ~= 'unsent' then
  if kind == 'first' then put('firsts', st.firsts + 1) end
elseif kind ~= 'first' then
  fill()
  put(kind, math.min(kind == 'retry' and cfg.retry_burst or cfg.manual_burst, st[kind] + 1))
end
if hint > 0 then put('held', math.max(st.held, now + math.min(hint, cfg.hold_max))) end

-- A call of an earlier state of the breaker says nothing about the present one.
if tonumber(gen) ~= st.gen then
  save()
  return 1
end

if st.breaker == 'half_open' then
  put('out', st.out - 1)
  if result == 'good' then
    put('good', st.good + 1)
    if st.good >= cfg.probes then
      put('trips', 0)
      put('limit', cfg.probes)
      put('cut', 0)
      forget()
      turn('closed')
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
    count(1, result == 'bad' and 1 or 0)
    if result == 'bad' then
      local calls, bad = seen()
      if calls >= cfg.window_calls and bad >= calls * cfg.failure_ratio then open(now) end
    end
  end
end
save()
return 1
