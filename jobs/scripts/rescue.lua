-- rescue carries out what the rescuer found, if nothing has changed since it looked.
-- a: job, seq (the log's head it saw), action, reason, outcome, delay_ms, save_ms, input_ms, can_retry
--    action  lost     a claim whose lease is gone: wait and start another run, or end it
--            rerun    the queue's task is of no use: another run, nothing to tell
--            queued   told as queued with a reason, or with none to take one back
--            missing  count a task that the queue did not know
--            error    end it
--            placed   the current run's task is in the queue
-- -> code ok | changed; status, run, at, missing
local r, l, now = record(), last(LOG), now_ms()
if a.action == 'placed' then
  if r.job ~= a.job or num(r.run) ~= a.run then return reply{code = 'changed'} end
  set(r, {unplaced = ''})
  return reply{code = 'ok'}
end
if r.job ~= a.job or not l or l.job ~= a.job or l.seq ~= a.seq or ended(l) then return reply{code = 'changed'} end
local claimed = r.token and num(r.lease) > now
if a.action == 'lost' then
  if claimed or l.status ~= 'processing' and not (l.status == 'retrying' and l.layer == 'call') then
    return reply{code = 'changed'}
  end
  if num(r.calls) >= num(r.allowance) then
    finish(r, 'retries_exhausted', 'call_allowance', true, cool_down(r, now), a.input_ms)
    return reply{code = 'ok', status = 'error'}
  end
  if num(r.attempts) >= num(r.max_attempts) then
    finish(r, 'retries_exhausted', 'attempts', true, cool_down(r, now), a.input_ms)
    return reply{code = 'ok', status = 'error'}
  end
  local at = math.floor((now + a.delay_ms + 500) / 1000) * 1000
  if at <= now then at = math.floor(now / 1000) * 1000 + 1000 end
  if at >= num(r.deadline) - a.save_ms then
    finish(r, 'deadline_exceeded', 'deadline', true, cool_down(r, now), a.input_ms)
    return reply{code = 'ok', status = 'error'}
  end
  publish(r, {status = 'retrying', layer = 'queue', next_attempt = num(r.attempts) + 1, next_retry = at,
    reason = 'worker_lost'})
  set(r, {token = '', lease = '', worker = '', next_retry = at, run = num(r.run) + 1, unplaced = '1', missing = ''})
  return reply{code = 'ok', status = 'retrying', run = r.run, at = at, attempt = r.attempts}
end
if claimed and a.action ~= 'error' then return reply{code = 'changed'} end
if a.action == 'rerun' then
  set(r, {run = num(r.run) + 1, unplaced = '1', missing = ''})
  return reply{code = 'ok', status = l.status, run = r.run}
end
if a.action == 'missing' then
  set(r, {missing = num(r.missing) + 1})
  return reply{code = 'ok', status = l.status, run = r.run, missing = r.missing}
end
if a.action == 'queued' then
  local due = math.max(num(r.next_retry), num(r.not_before))
  publish(r, {status = 'queued', reason = a.reason, not_before = due > now and due or ''})
  set(r, {paused = a.reason == 'queue_paused' and '1' or ''})
  return reply{code = 'ok', status = 'queued', run = r.run, at = due}
end
finish(r, a.outcome, a.reason, a.can_retry, a.can_retry and cool_down(r, now) or nil, a.input_ms)
redis.call('PUBLISH', a.cancels, r.job)
return reply{code = 'ok', status = 'error'}
