-- retry is the user's "try again". Safe to repeat with the same job id.
-- a: job (for the new one, if one is due), deadline_ms, max_attempts, max_calls, allowance,
--    cost_cap, dependency, queue, input_ms
-- -> code created | live | run_now | wait | completed | not_retryable | too_often | gone | unknown;
--    job, status, run, queue, at (when it may be asked again), now, old (the job that failed)
local r, l, now = record(), last(LOG), now_ms()
if not l then return reply{code = 'unknown'} end
if not r.job then
  -- the record is gone and the log is not: an end can be told, nothing can be started
  if l.status == 'completed' then return reply{code = 'completed', job = l.job} end
  return reply{code = 'gone'}
end
if r.job == a.job then return reply{code = 'created', job = r.job, status = 'queued', old = r.old} end
if l.status == 'completed' then return reply{code = 'completed', job = r.job} end
if l.status == 'error' then
  if l.can_retry ~= '1' then return reply{code = 'not_retryable', job = r.job} end
  if num(r.hint) > now then return reply{code = 'wait', at = num(r.hint), now = now, job = r.job} end
  if num(l.retry_at) > now then return reply{code = 'too_often', at = num(l.retry_at), now = now} end
  if redis.call('EXISTS', INPUT) == 0 then return reply{code = 'gone'} end
  local old = r.job
  start{fingerprint = r.fingerprint, language = r.language, manual = str(num(r.manual) + 1), old = old,
    reason = 'run_by_user'}
  redis.call('PEXPIRE', INPUT, a.input_ms)
  return reply{code = 'created', job = a.job, status = 'queued', old = old}
end
if l.status == 'retrying' and l.layer == 'queue' then
  if num(r.hint) > now then return reply{code = 'wait', at = num(r.hint), now = now, job = r.job} end
  publish(r, {status = 'queued', reason = 'run_by_user'})
  set(r, {next_retry = '', hint = ''})
  return reply{code = 'run_now', job = r.job, run = num(r.run), queue = r.queue, status = 'queued'}
end
if l.status == 'queued' and l.reason == 'run_by_user' and num(r.attempts) > 0 then
  return reply{code = 'run_now', job = r.job, run = num(r.run), queue = r.queue, status = 'queued'} -- the same tap again
end
return reply{code = 'live', job = r.job, status = l.status}
