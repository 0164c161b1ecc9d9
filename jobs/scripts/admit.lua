-- admit takes a job into the index of open jobs, if the limits allow it. The index cannot overshoot: this is the one
-- place where it grows. Safe to repeat.
-- ARGV  1 the job
--       2 JSON: bytes (of its input), check_ms (until its first check), hold_ms (until its input is forgotten at the
--         latest), within_ms (in which it has to be done, 0: whenever), enough (how many jobs of a workload must have
--         been seen before its mean says anything), after (the failed job whose input it takes over, or empty),
--         retry (a user's "try again"); limits, 0 where there is none: jobs, input_bytes, slots (that can be busy at
--         the same time), owner_jobs, owner_bytes, starts and retries of an owner {burst, every_ms}
-- -> {why not, or empty; ms after which to ask again, as far as known; jobs whose input made way, ...}
local job, a = ARGV[1], cjson.decode(ARGV[2])
local owner, workload = string.match(job, '^([^/]+)/[^/]+/([^/]+)/')
if redis.call('ZSCORE', INDEX, job) then return {'', 0} end
local now = clock()
local open, mine = redis.call('ZCARD', INDEX), stored(redis.call('HGET', LIVE, owner))

-- slots is how many jobs can be worked on at the same time.
local function slots()
  local n = 0
  for _, process in ipairs(redis.call('ZRANGEBYSCORE', SLOTS, text(now), '+inf')) do
    n = n + stored(string.match(process, '(%d+)$'))
  end
  return a.slots > 0 and math.min(n, a.slots) or n
end

-- ahead is for how many ms the open jobs would keep one slot busy, by what is known, and for how many one more would;
-- nil if that is not known.
local function ahead()
  local flat, pace, sum = redis.call('HGETALL', PACE), {}, 0
  for i = 1, #flat, 2 do pace[flat[i]] = tonumber(flat[i + 1]) end
  local function mean(name) return stored(pace['#' .. name]) >= a.enough and pace[name] or nil end
  for name in pairs(pace) do
    if mean(name) then sum = sum + mean(name) * stored(redis.call('HGET', LIVE, '/' .. name)) end
  end
  return sum, mean(workload)
end

-- next_end is in how many ms one of n open jobs is likely to end; 0: not known.
local function next_end(n)
  local busy = slots()
  if n <= 0 or busy <= 0 then return 0 end
  return math.ceil(ahead() / busy / n)
end

-- late is how many ms after its time the job would be done; 0 if it would be in time, or if nothing is known.
local function late()
  if a.within_ms <= 0 then return 0 end
  local work, mean = ahead()
  if not mean or work + mean <= a.within_ms then return 0 end -- a single slot would do
  local busy = slots()
  if busy <= 0 then return 0 end
  return math.max(0, math.ceil(work / busy + mean - a.within_ms))
end

-- too_soon is in how many ms an account may be used again; 0: now.
local function too_soon(account, rate)
  if rate.burst <= 0 then return 0 end
  local free = math.max(now, stored(redis.call('ZSCORE', USED, account)))
  return math.max(0, free - (rate.burst - 1) * rate.every_ms - now)
end
local function use(account, rate)
  if rate.burst <= 0 then return end
  local free = math.max(now, stored(redis.call('ZSCORE', USED, account)))
  redis.call('ZADD', USED, text(free + rate.every_ms), account)
end

-- Which inputs of failed jobs make way, the oldest first; at most so many in one step.
local most, gone, chosen, freed = 256, {}, {}, 0
local function make_way(need, failed)
  for _, other in ipairs(failed) do
    if need <= 0 or #gone >= most then break end
    if other ~= a.after and not chosen[other] and not redis.call('ZSCORE', INDEX, other) then
      local size = stored(redis.call('HGET', SIZES, other))
      gone[#gone + 1], chosen[other] = other, true
      need, freed = need - size, freed + size
    end
  end
  return need <= 0
end
local function owners_failed()
  local found = redis.call('ZRANGEBYLEX', FAILED, '[' .. owner .. '/', '(' .. owner .. '0', 'LIMIT', 0, most + 1)
  for i, entry in ipairs(found) do found[i] = string.match(entry, '^[^/]+/%d+/(.*)$') end
  return found
end

local function refuse(why, wait)
  -- So many small inputs make way for a large one in more than one step.
  if #gone < most then gone = {} end
  for _, other in ipairs(gone) do forget(other) end
  return {why, wait, unpack(gone)}
end
if a.owner_jobs > 0 and mine >= a.owner_jobs then return refuse('owner_jobs', next_end(mine)) end
local wait = too_soon(owner, a.starts)
if wait > 0 then return refuse('owner_starts', wait) end
wait = a.retry and too_soon(owner .. '/retries', a.retries) or 0
if wait > 0 then return refuse('owner_retries', wait) end
if open >= a.jobs then return refuse('queue_full', next_end(open)) end
local more = a.bytes
if a.after ~= '' then more = more - stored(redis.call('HGET', SIZES, a.after)) end
if a.owner_bytes > 0 then
  local over = stored(redis.call('HGET', BYTES, owner)) + more - a.owner_bytes
  if over > 0 and not make_way(over, owners_failed()) then return refuse('owner_bytes', next_end(mine)) end
end
local over = stored(redis.call('HGET', BYTES, '*')) + more - freed - a.input_bytes
if over > 0 and not make_way(over, redis.call('ZRANGE', INPUTS, 0, 2 * most)) then return refuse('input_bytes', next_end(open)) end
wait = late()
if wait > 0 then return refuse('deadline', wait) end

for _, other in ipairs(gone) do forget(other) end
redis.call('ZADD', INDEX, text(now + a.check_ms), job)
count(LIVE, {owner, '/' .. workload}, 1)
if redis.call('HSETNX', SIZES, job, a.bytes) == 1 then count(BYTES, {owner, '*'}, a.bytes) end
redis.call('ZADD', INPUTS, text(now + a.hold_ms), job)
use(owner, a.starts)
if a.retry then use(owner .. '/retries', a.retries) end
return {'', 0, unpack(gone)}
