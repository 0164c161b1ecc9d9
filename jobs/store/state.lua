-- What read and commit begin with.
--
-- KEYS  1 job record, a hash: version, job (JSON), last (JSON, the newest transition)  2 log  3 input  4 document
--       5 ledger  6 idempotency record or reports; absent if neither is asked for
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- state is all that a verb may look at. The log is read only where the record is lost.
local function state(now, field)
  local record = redis.call('HMGET', KEYS[1], 'version', 'job', 'last')
  local document = redis.call('HMGET', KEYS[4], 'version', 'job')
  local asked, newest = false, nil
  if KEYS[6] and field ~= '' then
    asked = redis.call('HGET', KEYS[6], field)
  elseif KEYS[6] then
    asked = redis.call('GET', KEYS[6])
  end
  if not record[1] then newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1] end
  return {now, record[1] or '', record[2] or '', record[3] or '', document[1] or '', document[2] or '',
    redis.call('STRLEN', KEYS[3]), asked or '', newest and newest[2] or {}}
end
