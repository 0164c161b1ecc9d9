-- pause stops all calls to the dependency until a moment. With 0 it ends a pause and
-- the provider's hold; with -1 it ends the breaker's wait, so that probes go now.
--
-- KEYS    see state.lua; 3 list: audit
-- ARGV    1 until, ms, 0 or -1  2 owner  3 note  4 the order as JSON, for the audit
-- Result  1, or 0: the moment has passed or is too far away
load({}, {})
local till = tonumber(ARGV[1])
if till < 0 then
  if st.breaker == 'open' then
    put('open_until', now)
    move('half_open')
  end
elseif till > 0 then
  if till <= now or till > now + cfg.order_max then return 0 end
  put('paused', till)
  put('pause_owner', ARGV[2])
  put('pause_note', ARGV[3])
else
  put('paused', 0)
  put('held', 0)
  redis.call('HDEL', STATE, 'pause_owner', 'pause_note')
end
save()
redis.call('LPUSH', KEYS[3], string.format('%.0f ', now) .. ARGV[4])
redis.call('LTRIM', KEYS[3], 0, 99)
redis.call('PEXPIRE', KEYS[3], cfg.keep)
return 1
