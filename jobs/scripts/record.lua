-- Shared by every script on a job's keys; events' prelude (now_ms, last, append)
-- stands before it.
--
-- KEYS  1 log   2 job record   3 input   4 document   5 ledger   6 idempotency record (submit alone)
-- ARGV  1 live channel   2 retention of log and record in ms   3 the verb's arguments as JSON   4 a blob
--
-- The record (hash) holds numbers as strings, times in ms of Redis time:
--   job, run, fingerprint, language, accepted, deadline, max_attempts, max_calls,
--   allowance, manual (manual retries in a row), dependency, queue (where its tasks wait)
--   cap, spent               what its calls may cost, and what they have cost at most, in 1e-9 US dollars;
--                            no cap: they may cost anything
--   worked                   how long its attempts held a slot
--   old                      the failed job that this one follows in its session
--   attempts, calls          counted here alone
--   token, lease, worker, claimed, call     the current claim; absent when none. It goes in the step that ends
--                            the job, so who has it speaks for a live one
--   next_retry               when the queue may start it again; absent: at once
--   hint                     a provider's wait that nobody may shorten
--   not_before, paused       a wait that counts no attempt
--   settled, settled_as      the last settlement's token and answer
--   reserved                 token:call of the last reservation
--   unplaced                 the current run's task may not be in the queue yet
--   missing                  how often the rescuer found it missing there
-- Its status is not in it: that is the log's last transition.
local LOG, JOB, INPUT, DOC, LEDGER = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local LIVE, TTL = ARGV[1], ARGV[2]
local a = cjson.decode(ARGV[3])

local function num(v) return tonumber(v) or 0 end
local function str(n) return string.format('%.0f', n) end

local function record()
  local flat, r = redis.call('HGETALL', JOB), {}
  for i = 1, #flat, 2 do r[flat[i]] = flat[i + 1] end
  return r
end

-- set writes fields of the record; an empty string removes the field.
local function set(r, fields)
  local written, removed = {}, {}
  for k, v in pairs(fields) do
    if type(v) == 'number' then v = str(v) end
    if v ~= '' then
      written[#written + 1] = k
      written[#written + 1] = v
      r[k] = v
    elseif r[k] then
      removed[#removed + 1] = k
      r[k] = nil
    end
  end
  if #written > 0 then redis.call('HSET', JOB, unpack(written)) end
  if #removed > 0 then redis.call('HDEL', JOB, unpack(removed)) end
end

-- amount is a sum for set, which nothing takes away.
local function amount(v)
  if v == 0 then return '' end
  return v
end

-- reply makes the answer: a JSON object of strings.
local function reply(t)
  for k, v in pairs(t) do
    if type(v) == 'number' then t[k] = str(v) end
  end
  return cjson.encode(t)
end

local function ended(l) return l.status == 'completed' or l.status == 'error' end

-- live returns the log's last transition while it is r's and not an end.
local function live(r)
  local l = last(LOG)
  if l and r.job and l.job == r.job and not ended(l) then return l end
  return nil
end

-- publish appends a transition of r's job. It comes before any other write of
-- a verb: a script that fails here has changed nothing.
local function publish(r, f)
  f.job = r.job
  f.attempt = f.attempt or r.attempts
  f.max_attempts = r.max_attempts
  f.deadline = r.deadline
  local t, err = append(LOG, LIVE, f, TTL)
  if not t then error('illegal transition to ' .. f.status .. ': ' .. tostring(err)) end
  redis.call('PEXPIRE', JOB, TTL)
  return t
end

-- note adds lines (JSON texts) to the ledger, which is bounded.
local function note(lines)
  if not lines or #lines == 0 then return end
  local kept = redis.call('RPUSH', LEDGER, unpack(lines))
  if kept > 200 then redis.call('LTRIM', LEDGER, -200, -1) end
  redis.call('PEXPIRE', LEDGER, TTL)
end

-- finish ends the job as an error. Its input stays for a manual retry unless
-- keep is 0 or less, and so does a provider's wait: it outlives the job, whoever
-- ended it, and a tap is told of it.
local function finish(r, outcome, reason, can_retry, retry_at, keep)
  local hint = can_retry and num(r.hint) or 0
  if hint > now_ms() then retry_at = math.max(retry_at or 0, hint) else hint = '' end
  local t = publish(r, {status = 'error', outcome = outcome, reason = reason,
    can_retry = can_retry and '1' or '', retry_at = retry_at, replaced_by = r.replaced_by, detail = a.detail ~= '' and a.detail or nil})
  set(r, {token = '', lease = '', next_retry = '', not_before = '', hint = hint, paused = ''})
  if keep > 0 then redis.call('PEXPIRE', INPUT, keep) else redis.call('DEL', INPUT) end
  return t
end

-- cool_down is when a user may try again: at once at first, then after a pause
-- that doubles with each manual retry in a row from the third on.
local function cool_down(r, now)
  local n = num(r.manual)
  if n < 3 then return nil end
  return now + math.min(30000, 1000 * 2 ^ (n - 2))
end

-- start makes a new job the topic's current one.
local function start(fields)
  local now = now_ms()
  local r = {job = a.job, run = 1, attempts = 0, calls = 0, accepted = now,
    deadline = now + a.deadline_ms, max_attempts = a.max_attempts, max_calls = a.max_calls,
    allowance = a.allowance, fingerprint = fields.fingerprint, language = fields.language,
    manual = fields.manual, old = fields.old, dependency = a.dependency, queue = a.queue,
    cap = num(a.cost_cap) > 0 and a.cost_cap or nil}
  for k, v in pairs(r) do
    if type(v) == 'number' then r[k] = str(v) end
  end
  local t = publish(r, {status = 'queued', reason = fields.reason})
  redis.call('DEL', JOB, LEDGER)
  set(r, r)
  redis.call('PEXPIRE', JOB, TTL)
  return t
end
