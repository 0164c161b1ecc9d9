-- inspect shows the dependency's state, brought up to now.
--
-- KEYS    see state.lua; 3 list: audit
-- ARGV    none
-- Result  {state as a JSON object, {permit, lease end, record, ...} of at most 100
--         permits, those whose lease ends first before the others, {audit, ...}}
load({}, {})
fill()
local calls, bad = seen()
local taken = in_use()
save()
local who = redis.call('HMGET', STATE, 'pause_owner', 'pause_note')
local shown = {
  now = now, breaker = st.breaker, open_until = st.open_until, trips = st.trips,
  probes_out = st.out, probes_good = st.good, limit = st.limit,
  in_use = taken, calls = calls, bad = bad,
  retry = st.retry, retry_at = one_token_at(st.retry, cfg.retry_per_second),
  manual = st.manual, manual_at = one_token_at(st.manual, cfg.retry_per_second * cfg.manual_share),
  held = st.held, paused = st.paused, pause_owner = who[1] or '', pause_note = who[2] or '',
}
local holders = {}
local first = redis.call('ZRANGE', PERMITS, 0, 99, 'WITHSCORES')
for i = 1, #first, 2 do
  holders[#holders + 1] = first[i]
  holders[#holders + 1] = first[i + 1]
  holders[#holders + 1] = redis.call('HGET', STATE, 'p/' .. first[i]) or ''
end
return {cjson.encode(shown), holders, redis.call('LRANGE', KEYS[3], 0, -1)}
