-- claim gives a worker the right to speak for the job. Safe to repeat with the
-- same token while the lease lives.
-- a: job, run, token, worker, lease_ms, save_ms (time kept back for saving), input_ms,
--    ask (do not take an early task for an operator's run, answer ran)
-- -> {JSON, input}; code claimed | wait | early | ran | busy | ended | stale | gone;
--    attempt, calls, allowance, cap, spent, max_attempts, max_calls, deadline, now, language, at, ended (1: by this call),
--    worked (of an ended one)
local r = record()
if r.job ~= a.job then return {reply{code = 'gone'}} end
local l = last(LOG)
if not l or l.job ~= r.job or ended(l) then return {reply{code = 'ended'}} end

local now = now_ms()
local function claimed(input)
  return {reply{code = 'claimed', attempt = r.attempts, calls = r.calls, allowance = r.allowance,
    max_attempts = r.max_attempts, max_calls = r.max_calls, deadline = r.deadline, now = now,
    language = r.language, manual = r.manual, cap = r.cap, spent = r.spent}, input}
end
if r.token == a.token and num(r.lease) > now then return claimed(redis.call('GET', INPUT)) end
if num(r.run) ~= a.run then return {reply{code = 'stale'}} end
if r.token and num(r.lease) > now then
  return {reply{code = 'busy', at = num(r.lease), now = now}}
end
if now >= num(r.deadline) - a.save_ms then
  local outcome, reason = 'deadline_exceeded', 'deadline'
  if l.reason == 'dependency_paused' then outcome, reason = 'admission_denied', l.reason end
  finish(r, outcome, reason, true, cool_down(r, now), a.input_ms)
  return {reply{code = 'ended', ended = '1', outcome = outcome, reason = reason, worked = r.worked}}
end
if num(r.attempts) >= num(r.max_attempts) then
  finish(r, 'retries_exhausted', 'attempts', true, cool_down(r, now), a.input_ms)
  return {reply{code = 'ended', ended = '1', outcome = 'retries_exhausted', reason = 'attempts', worked = r.worked}}
end

local due = math.max(num(r.next_retry), num(r.not_before))
if due > now then
  if due - now <= 2000 then return {reply{code = 'wait', at = due, now = now}} end
  -- Somebody ran the task before its time. A wait that a provider or the gate
  -- asked for is kept; a planned one is the operator's to shorten.
  if num(r.hint) > now + 2000 or num(r.not_before) > now + 2000 then
    return {reply{code = 'early', at = due, now = now}}
  end
  if a.ask then return {reply{code = 'ran', at = due, now = now}} end
  publish(r, {status = 'queued', reason = 'run_by_operator'})
end
if redis.call('HGET', DOC, 'job') == r.job then
  -- There is a document of this job and no word of it in the log: the storage
  -- has lost something. Making another one is not ours to decide.
  finish(r, 'outcome_unknown', 'storage', false, nil, a.input_ms)
  return {reply{code = 'ended', ended = '1', outcome = 'outcome_unknown', reason = 'storage'}}
end
local input = redis.call('GET', INPUT)
if not input then
  finish(r, 'failed', 'storage', false, nil, 0)
  return {reply{code = 'ended', ended = '1', outcome = 'failed', reason = 'storage'}}
end

publish(r, {status = 'processing', attempt = num(r.attempts) + 1, call = 1, max_calls = r.max_calls})
set(r, {attempts = num(r.attempts) + 1, token = a.token, lease = now + a.lease_ms, worker = a.worker,
  claimed = now, next_retry = '', not_before = '', hint = '', paused = '', missing = '', unplaced = ''})
return claimed(input)
