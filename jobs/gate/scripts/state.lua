-- What every verb on a dependency begins with; gate.go puts it, after the
-- settings (the table `cfg`), in front of each of them. Not a script by itself.
--
-- KEYS[1] hash: the dependency's state
-- KEYS[2] sorted set: permit -> end of its lease, ms
--
-- Fields of the hash; what is missing has its default:
--   breaker     closed | open | half_open
--   gen         number of the breaker's present state
--   open_until  open: from when on probes may go, ms
--   trips       how often it opened since it was last closed
--   out, good   half open: probes under way, probes that succeeded
--   limit       calls allowed at the same time now, not a whole number
--   cut         when limit was last lowered, ms
--   window      '<slot>:<calls>:<bad> ...', at most 10 slots
--   retry, manual, filled   tokens of the two buckets, and until when time has filled them
--   paused      operator's pause ends, ms; pause_owner, pause_note
--   held        the provider's hint to the account ends, ms
--   p/<permit>  '<gen> <kind> <since> <workload> <job>'; kind first | retry | manual
--
-- Gives: now; st, the fields above; mine, the record of the permit that was
-- loaded, or false; and the functions below. Nothing is stored before save().
local STATE, PERMITS = KEYS[1], KEYS[2]
local now, mine
local st, changed = {}, {}

local defaults = {
  breaker = 'closed', gen = 0, open_until = 0, trips = 0, out = 0, good = 0,
  limit = cfg.concurrency, cut = 0, window = '',
  retry = cfg.retry_burst, manual = cfg.manual_burst, filled = 0, paused = 0, held = 0,
}
local names = {
  'breaker', 'gen', 'open_until', 'trips', 'out', 'good', 'limit', 'cut', 'window',
  'retry', 'manual', 'filled', 'paused', 'held',
}

-- put sets a field. Numbers are written out in full: tostring() gives up at 1e14.
local function put(name, value)
  st[name] = value
  changed[#changed + 1] = name
  changed[#changed + 1] = type(value) == 'number' and string.format('%.17g', value) or value
end

-- save stores what was put.
local function save()
  if #changed > 0 then
    redis.call('HSET', STATE, unpack(changed))
    redis.call('PEXPIRE', STATE, cfg.keep)
  end
end

-- turn moves the breaker.
local function turn(breaker)
  put('breaker', breaker)
  put('gen', st.gen + 1)
  put('out', 0)
  put('good', 0)
end

-- open opens the breaker from a moment on, each time in a row for twice as long.
local function open(at)
  put('open_until', at + math.min(cfg.open_max, cfg.open_for * 2 ^ math.min(st.trips, 30)))
  put('trips', st.trips + 1)
  put('limit', cfg.probes)
  put('window', '')
  turn('open')
end

-- expire takes permits from holders that let their lease end. A probe that went
-- that way is a bad one, from the moment its lease ended: a probe that hangs does
-- not keep the breaker half open.
local function expire(permit)
  local gone = redis.call('ZRANGEBYSCORE', PERMITS, '-inf', string.format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, 500)
  for i = 1, #gone, 2 do
    local held_by = redis.call('HGET', STATE, 'p/' .. gone[i])
    redis.call('ZREM', PERMITS, gone[i])
    redis.call('HDEL', STATE, 'p/' .. gone[i])
    if gone[i] == permit then mine = false end
    if held_by and st.breaker == 'half_open' and tonumber(string.match(held_by, '^%d+')) == st.gen then
      open(tonumber(gone[i + 1]))
    end
  end
end

-- load reads the state and brings it up to now.
local function load(permit)
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
  local stored = redis.call('HMGET', STATE, 'p/' .. permit, unpack(names))
  mine = stored[1]
  for i, name in ipairs(names) do
    local value = stored[i + 1]
    if value and type(defaults[name]) == 'number' then value = tonumber(value) end
    st[name] = value or defaults[name]
  end
  st.limit = math.min(st.limit, cfg.concurrency)
  expire(permit)
  if st.breaker == 'open' and now >= st.open_until then turn('half_open') end
end

-- fill adds to the buckets what time and `firsts` first calls have earned.
local function fill(firsts)
  local seconds = 0
  if st.filled > 0 then seconds = math.max(0, now - st.filled) / 1000 end
  local earned = cfg.retry_per_second * seconds + cfg.retry_per_first * firsts
  put('retry', math.min(cfg.retry_burst, st.retry + earned))
  put('manual', math.min(cfg.manual_burst, st.manual + cfg.manual_share * earned))
  put('filled', math.max(now, st.filled))
end

-- one_token_at is the moment from which on time alone has filled a bucket to one token.
local function one_token_at(tokens, per_second)
  return now + math.ceil(math.max(0, 1 - tokens) / per_second * 1000)
end

-- seen counts calls of the rolling window, after adding some: calls, bad ones.
local function seen(calls, bad)
  local slot = math.floor(now / (cfg.window / 10))
  local kept, all_calls, all_bad = {}, calls, bad
  for s, c, b in string.gmatch(st.window, '(%d+):(%d+):(%d+)') do
    local age = slot - tonumber(s)
    if age == 0 then
      calls, bad = calls + tonumber(c), bad + tonumber(b)
    elseif age > 0 and age < 10 then
      kept[#kept + 1] = s .. ':' .. c .. ':' .. b
    end
    if age >= 0 and age < 10 then
      all_calls, all_bad = all_calls + tonumber(c), all_bad + tonumber(b)
    end
  end
  kept[#kept + 1] = string.format('%.0f:%.0f:%.0f', slot, calls, bad)
  return all_calls, all_bad, table.concat(kept, ' ')
end
