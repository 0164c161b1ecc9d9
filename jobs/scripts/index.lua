-- Shared by the scripts on the index of open jobs.
--
-- KEYS  1 index   sorted set: an open job, scored by its next check
--       2 inputs  sorted set: a job whose input is kept, scored by when it is forgotten at the latest
--       3 sizes   hash: such a job to the bytes of its input
--       4 bytes   hash: an owner, or * for all of them, to the bytes of its inputs
--       5 live    hash: an owner, or / and a workload, to its open jobs
--       6 pace    hash: a workload to the mean ms that its jobs hold a slot, # and it to how many were seen
--       7 slots   sorted set: process:slots, scored by when it is taken for gone
--       8 failed  sorted set by text: <owner>/<when forgotten>/<job> of ended jobs whose input is kept
--       9 used    sorted set: an owner, or it and /retries, scored by when its rate is unused again (GCRA's
--                 theoretical arrival time)
--
-- A job is <owner>/<session>/<workload>/<id> here.
local INDEX, INPUTS, SIZES, BYTES, LIVE, PACE, SLOTS, FAILED, USED = unpack(KEYS)

local function text(n) return string.format('%.0f', n) end
local function stored(n) return tonumber(n) or 0 end

local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function owner_of(job) return string.match(job, '^[^/]+') end
local function failed_entry(job, till) return string.format('%s/%013.0f/%s', owner_of(job), till, job) end

-- count adds to counters that are not kept at 0. What was lost elsewhere may not make one negative: it would be
-- somebody's room.
local function count(key, fields, n)
  for _, field in ipairs(fields) do
    if redis.call('HINCRBY', key, field, n) <= 0 then redis.call('HDEL', key, field) end
  end
end

-- forget takes a job's input off the count.
local function forget(job)
  local size = redis.call('HGET', SIZES, job)
  if not size then return end
  redis.call('HDEL', SIZES, job)
  redis.call('ZREM', FAILED, failed_entry(job, stored(redis.call('ZSCORE', INPUTS, job))))
  redis.call('ZREM', INPUTS, job)
  count(BYTES, {owner_of(job), '*'}, -size)
end
