-- What every script on a dependency begins with; gate.go puts it in front of each
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
--   slot, calls, bad, slow  newest slot of the rolling window: its number, its calls but
--               for rate-limited ones, the bad among them, and the rate-limited ones
--   past        its older slots, '<slot>:<calls>:<bad>:<slow> ...', at most 9
--   retry, manual     tokens of the two buckets
--   filled, firsts    until when time has filled them, and how many first calls
--                     have earned since
--   paused      operator's pause ends, ms; pause_owner, pause_note
--   held        the provider's hint to the account ends, ms
--   kept        when the keys' own end was last moved, ms
--   p/<permit>  '<gen> <kind> <since> <workload> <job>'; kind first | retry | manual
--
-- Gives: now; st, the fields above, as they were when they were first asked for,
-- or put since; record, what is written of each permit that was loaded, or false;
-- and the functions below. Nothing of it is stored before save().
local STATE, PERMITS = KEYS[1], KEYS[2]
local now
local record = {}
local changed = {} -- fields that were put
local ends = {}    -- permit -> new end of its lease, ms; false: it was given back
local stored_permits -- how many are stored; nil: not counted yet
local delta = 0      -- how many more there will be

local function value(name, stored)
  if name == 'breaker' then return stored or 'closed' end
  if name == 'past' then return stored or '' end
  if name == 'limit' then return math.min(tonumber(stored or cfg.concurrency), cfg.concurrency) end
  if name == 'retry' then return tonumber(stored or cfg.retry_burst) end
  if name == 'manual' then return tonumber(stored or cfg.manual_burst) end
  return tonumber(stored or 0)
end

-- written is a number as text, in full, which tostring() is not beyond 1e14. To
-- write a number is among the dearest things a script does, and times recur.
local texts = {}
local function written(n)
  local text = texts[n]
  if not text then
    text = string.format('%.17g', n)
    texts[n] = text
  end
  return text
end

-- What load has not read is read when it is needed, which is seldom.
local st = setmetatable({}, {__index = function(t, name)
  local v = value(name, redis.call('HGET', STATE, name))
  rawset(t, name, v)
  return v
end})

-- put sets a field.
local function put(name, v)
  st[name] = v
  changed[name] = true
end

-- in_use counts the permits, with what is not stored yet.
local function in_use()
  if not stored_permits then stored_permits = redis.call('ZCARD', PERMITS) end
  return stored_permits + delta
end

-- grant writes a new permit down, which has to be loaded before.
local function grant(permit, till, text)
  delta = delta + 1
  record[permit] = text
  ends[permit] = till
end

-- withdraw takes a permit back.
local function withdraw(permit)
  delta = delta - 1
  record[permit] = false
  ends[permit] = false
end

-- save stores what has changed. Once an hour is often enough to move the keys' end.
-- What makes room comes first: a Redis without memory refuses a script by its first
-- write, and permits have to come back all the same.
local function save()
  local old = now - st.kept >= 3600000
  if old then put('kept', now) end
  local fields, fewer, held, back = {}, {}, {}, {}
  for name in pairs(changed) do
    local v = st[name]
    fields[#fields + 1] = name
    fields[#fields + 1] = type(v) == 'number' and written(v) or v
  end
  for permit, till in pairs(ends) do
    if till then
      fields[#fields + 1] = 'p/' .. permit
      fields[#fields + 1] = record[permit]
      held[#held + 1] = written(till)
      held[#held + 1] = permit
    else
      fewer[#fewer + 1] = 'p/' .. permit
      back[#back + 1] = permit
    end
  end
  local new = #held > 0 and in_use() <= #held / 2 -- the set of permits: no other is left in it
  for i = 1, #back, 1000 do -- unpack has an end
    local to = math.min(i + 999, #back)
    redis.call('HDEL', STATE, unpack(fewer, i, to))
    redis.call('ZREM', PERMITS, unpack(back, i, to))
  end
  if #fields > 0 then redis.call('HSET', STATE, unpack(fields)) end
  if #held > 0 then redis.call('ZADD', PERMITS, unpack(held)) end
  if old then redis.call('PEXPIRE', STATE, cfg.keep) end
  if old or new then redis.call('PEXPIRE', PERMITS, cfg.keep) end
end

-- move changes the breaker's state.
local function move(breaker)
  put('breaker', breaker)
  put('gen', st.gen + 1)
  put('out', 0)
  put('good', 0)
end

-- forget empties the rolling window.
local function forget()
  put('calls', 0)
  put('bad', 0)
  put('slow', 0)
  put('past', '')
end

-- open opens the breaker from a moment on, each time in a row for twice as long.
local function open(at)
  put('open_until', at + math.min(cfg.open_max, cfg.open_for * 2 ^ math.min(st.trips, 30)))
  put('trips', st.trips + 1)
  put('limit', cfg.probes)
  forget()
  move('open')
end

-- expire takes permits from holders that let their lease end. A probe that went
-- that way is a bad one, from the moment its lease ended: a probe that hangs does
-- not keep the breaker half open.
local function expire()
  local gone = redis.call('ZRANGEBYSCORE', PERMITS, '-inf', written(now), 'WITHSCORES')
  for i = 1, #gone, 2 do
    local permit = gone[i]
    local text = record[permit]
    if text == nil then text = redis.call('HGET', STATE, 'p/' .. permit) end
    withdraw(permit)
    if text and st.breaker == 'half_open' and tonumber(string.match(text, '^%d+')) == st.gen then
      open(tonumber(gone[i + 1]))
    end
  end
end

-- load reads some fields and permits in one go and brings the state up to now.
local function load(fields, permits)
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
  local names = {'breaker', 'kept'}
  for _, name in ipairs(fields) do names[#names + 1] = name end
  local asked = #names
  for _, permit in ipairs(permits) do names[#names + 1] = 'p/' .. permit end
  local stored = redis.call('HMGET', STATE, unpack(names))
  for i = 1, asked do st[names[i]] = value(names[i], stored[i]) end
  for i, permit in ipairs(permits) do record[permit] = stored[asked + i] end
  expire()
  if st.breaker == 'open' and now >= st.open_until then move('half_open') end
end
