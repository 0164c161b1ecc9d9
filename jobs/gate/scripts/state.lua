-- What every verb on a dependency begins with; gate.go puts it in front of each
-- of them, and their settings in the place of `cfg.<name>`. Not a script by itself.
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
--   slot, calls, bad  newest slot of the rolling window: its number, and its calls
--   past        its older slots, '<slot>:<calls>:<bad> ...', at most 9
--   retry, manual     tokens of the two buckets
--   filled, firsts    until when time has filled them, and how many first calls
--                     have earned since
--   paused      operator's pause ends, ms; pause_owner, pause_note
--   held        the provider's hint to the account ends, ms
--   kept        when the keys' own end was last moved, ms
--   p/<permit>  '<gen> <kind> <since> <workload> <job>'; kind first | retry | manual
--
-- Gives: now; st, the fields above, as they were when they were first asked for,
-- or put since; mine, the record of the permit that was loaded, or false; and the
-- functions below. Nothing that was put is stored before save().
local STATE, PERMITS = KEYS[1], KEYS[2]
local now, mine
local changed = {}

local function value(name, stored)
  if name == 'breaker' then return stored or 'closed' end
  if name == 'past' then return stored or '' end
  if name == 'limit' then return math.min(tonumber(stored or cfg.concurrency), cfg.concurrency) end
  if name == 'retry' then return tonumber(stored or cfg.retry_burst) end
  if name == 'manual' then return tonumber(stored or cfg.manual_burst) end
  return tonumber(stored or 0)
end

-- What load has not read is read when it is needed, which is seldom.
local st = setmetatable({}, {__index = function(t, name)
  local v = value(name, redis.call('HGET', STATE, name))
  rawset(t, name, v)
  return v
end})

-- put sets a field. Numbers are written out in full: tostring() gives up at 1e14.
local function put(name, v)
  st[name] = v
  changed[#changed + 1] = name
  changed[#changed + 1] = type(v) == 'number' and string.format('%.17g', v) or v
end

-- save stores what was put. Once an hour is often enough to move the keys' end.
local function save()
  local move = now - st.kept >= 3600000
  if move then put('kept', now) end
  if #changed > 0 then redis.call('HSET', STATE, unpack(changed)) end
  if move then
    redis.call('PEXPIRE', STATE, cfg.keep)
    redis.call('PEXPIRE', PERMITS, cfg.keep)
  end
end

-- turn moves the breaker.
local function turn(breaker)
  put('breaker', breaker)
  put('gen', st.gen + 1)
  put('out', 0)
  put('good', 0)
end

-- forget empties the rolling window.
local function forget()
  put('calls', 0)
  put('bad', 0)
  put('past', '')
end

-- open opens the breaker from a moment on, each time in a row for twice as long.
local function open(at)
  put('open_until', at + math.min(cfg.open_max, cfg.open_for * 2 ^ math.min(st.trips, 30)))
  put('trips', st.trips + 1)
  put('limit', cfg.probes)
  forget()
  turn('open')
end

-- expire takes permits from holders that let their lease end. A probe that went
-- that way is a bad one, from the moment its lease ended: a probe that hangs does
-- not keep the breaker half open.
local function expire(permit)
  local gone = redis.call('ZRANGEBYSCORE', PERMITS, '-inf', string.format('%.0f', now), 'WITHSCORES')
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

-- load reads the fields that a verb always needs and brings the state up to now.
local function load(permit, ...)
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
  local stored = redis.call('HMGET', STATE, 'p/' .. permit, 'breaker', 'kept', ...)
  mine = stored[1]
  st.breaker = value('breaker', stored[2])
  st.kept = value('kept', stored[3])
  for i = 1, select('#', ...) do
    local name = select(i, ...)
    st[name] = value(name, stored[i + 3])
  end
  expire(permit)
  if st.breaker == 'open' and now >= st.open_until then turn('half_open') end
end
