-- rescue carries out what the rescuer found, if nothing has changed since it looked.
-- a: job, run (of the task it saw; none: any), seq (the log's head it saw), action, reason, outcome, delay_ms, save_ms, input_ms, can_retry
--    action  lost     a claim whose lease is gone: wait and start another run, or end it
--            rerun    the queue's task is of no use: another run, nothing to tell
--            queued   told as queued with a reason, or with none to take one back
--            adopt    somebody ran the task before its planned time
--            wake     the gate it waits for has opened: no wait any more
--            missing  count a task that the queue did not know
--            error    end it
--            unplaced its task may be lost, and not because an operator deleted it
--            placed   the current run's task is in the queue (seq is not looked at)
-- -> code ok | changed; status, outcome, reason, run, at (when the run is due; 0: at once), now
local r, l, now = record(), last(LOG), now_ms()
if r.job ~= a.job or a.run and num(r.run) ~= a.run then return reply{code = 'changed'} end
if a.action == 'placed' then
  set(r, {unplaced = ''})
  return reply{code = 'ok'}
end
if not l or l.job ~= a.job or l.seq ~= a.seq or ended(l) then return reply{code = 'changed'} end
if r.token and num(r.lease) > now and a.action ~= 'error' then return reply{code = 'changed'} end

local function finished(outcome, reason, can_retry)
  finish(r, outcome, reason, can_retry, can_retry and cool_down(r, now) or nil, a.input_ms)
  redis.call('PUBLISH', a.cancels, r.job)
  return reply{code = 'ok', status = 'error', outcome = outcome, reason = reason, run = r.run}
end
local function going_on(status)
  return reply{code = 'ok', status = status, run = r.run, now = now, at = math.max(num(r.next_retry), num(r.not_before))}
end

if a.action == 'lost' then
  if redis.call('HGET', DOC, 'job') == r.job then return finished('outcome_unknown', 'storage', false) end
  if num(r.attempts) >= num(r.max_attempts) then return finished('retries_exhausted', 'attempts', true) end
  if num(r.calls) >= num(r.allowance) then return finished('retries_exhausted', 'call_allowance', true) end
  local at = now + a.delay_ms
  if at >= num(r.deadline) - a.save_ms then return finished('deadline_exceeded', 'deadline', true) end
  publish(r, {status = 'retrying', layer = 'queue', next_attempt = num(r.attempts) + 1, next_retry = at,
    reason = 'worker_lost'})
  set(r, {token = '', lease = '', worker = '', next_retry = at, run = num(r.run) + 1, unplaced = '1', missing = ''})
  return going_on('retrying')
end
if a.action == 'rerun' then
  set(r, {run = num(r.run) + 1, unplaced = '1', missing = ''})
  return going_on(l.status)
end
if a.action == 'unplaced' then
  set(r, {unplaced = '1'})
  return going_on(l.status)
end
if a.action == 'missing' then
  set(r, {missing = num(r.missing) + 1})
  return going_on(l.status)
end
if a.action == 'adopt' then
  publish(r, {status = 'queued', reason = 'run_by_operator'})
  set(r, {next_retry = '', hint = ''})
  return going_on('queued')
end
if a.action == 'wake' then
  publish(r, {status = 'queued'})
  set(r, {not_before = ''})
  return going_on('queued')
end
if a.action == 'queued' then
  local due = math.max(num(r.next_retry), num(r.not_before))
  publish(r, {status = 'queued', reason = a.reason, not_before = due > now and due or ''})
  set(r, {paused = a.reason == 'queue_paused' and '1' or ''})
  return going_on('queued')
end
return finished(a.outcome, a.reason, a.can_retry)
