-- settle ends an attempt. Safe to repeat with the same token: the first
-- settlement's answer comes again, whatever has happened since.
-- KEYS 6 with an outside worker's report alone: what each attempt was reported as (hash). Then
--    the order is: a repeat of the same report; another report; worker, token, lease, attempt.
-- a: job, token, kind (completed | retrying | queued | error), lines (ledger),
--    spent (the calls' cost so far), worst (what one more may cost),
--    detail (the provider's or the worker's own word for the failure), reason, outcome, can_retry, delay_ms, hint_ms (what the provider asks to wait), save_ms, input_ms, document_ms,
--    the holes in the last line, which is the attempt's, are filled in; wait_ms (queued: not before), may_end (that wait may end early, so it lasts until the deadline at most), retry_ms (error: no manual retry before), new_run (the queue's task cannot carry on)
--    attempt, print, worker (a report: the attempt, what it says, who says it)
-- ARGV 4: the document without its version
-- -> code ok | lost | conflict (a report that says something else); status, outcome, reason, at (next_retry or not_before), run, version, attempt,
--    worked (ms in a slot, all attempts), replay (1: of a report that was made before)
local r, now = record(), now_ms()
local reports = KEYS[6]
if reports then
  local known = redis.call('HGET', reports, str(a.attempt))
  if known then
    known = cjson.decode(known)
    if known.token ~= a.token then return reply{code = 'lost'} end
    if known.print ~= a.print then return reply{code = 'conflict'} end
    local again = cjson.decode(known.answer)
    again.replay = '1'
    return reply(again)
  end
  if r.worker ~= a.worker or num(r.lease) <= now or num(r.attempts) ~= a.attempt then return reply{code = 'lost'} end
elseif r.job == a.job and r.settled == a.token then
  return r.settled_as
end
local l = live(r)
if not l or r.job ~= a.job or r.token ~= a.token then return reply{code = 'lost'} end

local worked = num(r.worked) + math.max(0, now - num(r.claimed))

-- When the provider lets it be asked again, which is never shortened.
local hint = 0
if num(a.hint_ms) > 0 then hint = math.ceil((now + a.hint_ms) / 1000) * 1000 end

-- fill puts a value into its hole in a line.
local function fill(line, name, value)
  local _, to = string.find(line, '"' .. name .. '":"%', 1, true)
  if not to then return line end
  return string.sub(line, 1, to - 1) .. value .. string.sub(line, to + 1)
end

local changed = {token = '', lease = '', worker = '', spent = amount(a.spent)} -- in the record, by this settlement

local function settled(answer)
  if a.new_run and not ended(answer) then changed.run, changed.unplaced = num(r.run) + 1, '1' end
  answer.code = 'ok'
  answer.attempt = changed.attempts or r.attempts
  answer.run = changed.run or r.run
  answer.now = now
  answer.worked = worked
  local text = reply(answer)
  -- What an attempt came to is decided here, so its ledger line is finished here.
  local lines = a.lines or {}
  if #lines > 0 then
    lines[#lines] = fill(fill(lines[#lines], 'status', answer.status), 'reason', answer.reason or '')
  end
  note(lines)
  changed.settled, changed.settled_as, changed.worked = a.token, text, ended(answer) and '' or worked
  set(r, changed)
  if reports then
    redis.call('HSET', reports, str(a.attempt), cjson.encode{token = a.token, print = a.print, answer = text})
    redis.call('PEXPIRE', reports, TTL)
  end
  return text
end

local function fail(outcome, reason, can_retry, retry_at)
  if can_retry then
    local cool = cool_down(r, now)
    if cool and cool > (retry_at or 0) then retry_at = cool end
  end
  if hint > 0 then r.hint = hint end
  finish(r, outcome, reason, can_retry, retry_at, a.input_ms)
  return settled{status = 'error', outcome = outcome, reason = reason}
end

if a.kind == 'completed' then
  local version = num(redis.call('HGET', DOC, 'version')) + 1
  publish(r, {status = 'completed', outcome = 'completed', version = version})
  redis.call('HSET', DOC, 'version', str(version), 'job', r.job, 'created', str(now), 'body', ARGV[4])
  redis.call('PEXPIRE', DOC, a.document_ms)
  redis.call('DEL', INPUT)
  changed.manual = '0'
  return settled{status = 'completed', outcome = 'completed', version = version}
end

if a.kind == 'queued' then
  local at = 0
  if num(a.wait_ms) > 0 then at = math.ceil((now + a.wait_ms) / 1000) * 1000 end
  local last = num(r.deadline) - a.save_ms
  if at >= last then
    at = math.ceil(last / 1000) * 1000 -- not before: the claim then ends the job
    if not a.may_end or at <= now then return fail(a.outcome or 'deadline_exceeded', a.reason, true, nil) end
  end
  local attempts = num(r.attempts) - 1
  publish(r, {status = 'queued', reason = a.reason, attempt = attempts, not_before = at > 0 and at or ''})
  changed.attempts, changed.not_before = attempts, at > 0 and at or ''
  return settled{status = 'queued', reason = a.reason, at = at}
end

if a.kind == 'retrying' then
  if num(r.attempts) >= num(r.max_attempts) then return fail('retries_exhausted', 'attempts', true, nil) end
  if num(r.calls) >= num(r.allowance) then return fail('retries_exhausted', 'call_allowance', true, nil) end
  if r.cap and a.worst and num(a.spent) + a.worst > num(r.cap) then
    return fail('retries_exhausted', 'call_allowance', true, nil)
  end
  local at = math.max(now + a.delay_ms, hint)
  if at >= num(r.deadline) - a.save_ms then return fail('deadline_exceeded', 'deadline', true, nil) end
  publish(r, {status = 'retrying', layer = 'queue', next_attempt = num(r.attempts) + 1, next_retry = at,
    reason = a.reason})
  changed.next_retry, changed.hint = at, hint > 0 and hint or ''
  return settled{status = 'retrying', reason = a.reason, at = at}
end

return fail(a.outcome, a.reason, a.can_retry, num(a.retry_ms) > 0 and now + a.retry_ms or nil)
