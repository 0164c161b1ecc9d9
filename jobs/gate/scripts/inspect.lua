-- inspect shows the dependency's state, brought up to now, and stores nothing:
-- anybody may ask about any name.
--
-- KEYS    see state.lua; 3 list: audit
-- ARGV    none
-- Result  {state as a JSON object, {permit, lease end, record, ...} of at most 100
--         permits, those whose lease ends first before the others, {audit, ...}}
load({}, {})
fill()
local calls, bad = seen()
local who = redis.call('HMGET', STATE, 'pause_owner', 'pause_note')
local shown = {
  now = now, breaker = st.breaker, open_until = st.open_until, trips = st.trips,
  probes_out = st.out, probes_good = st.good, limit = st.limit,
  in_use = in_use(), calls = calls, bad = bad,
  retry = st.retry, retry_at = one_token_at(st.retry, cfg.retry_per_second),
  manual = st.manual, manual_at = one_token_at(st.manual, cfg.retry_per_second * cfg.manual_share),
  held = st.held, paused = st.paused, pause_owner = who[1] or '', pause_note = who[2] or '',
}
local holders = {}
local first = redis.call('ZRANGEBYSCORE', PERMITS, '(' .. written(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 100)
for i = 1, #first, 2 do
  holders[#holders + 1] = first[i]
  holders[#holders + 1] = first[i + 1]
  holders[#holders + 1] = redis.call('HGET', STATE, 'p/' .. first[i]) or ''
end
return {cjson.encode(shown), holders, redis.call('LRANGE', KEYS[3], 0, -1)}
