-- resolve ends an unknown outcome by an operator's word. Safe to repeat.
-- a: job, kind (completed | failed), document_ms, input_ms
-- ARGV 4: the document without its version
-- -> code ok | not_unknown | unknown; status, version
local r, l, now = record(), last(LOG), now_ms()
if not l or r.job ~= a.job or l.job ~= a.job then return reply{code = 'unknown'} end
if r.resolved == a.kind then return reply{code = 'ok', status = l.status, version = r.resolved_version} end
if l.outcome ~= 'outcome_unknown' then return reply{code = 'not_unknown', status = l.status} end
local version
if a.kind == 'completed' then
  version = num(redis.call('HGET', DOC, 'version')) + 1
  publish(r, {status = 'completed', outcome = 'completed', version = version})
  redis.call('HSET', DOC, 'version', str(version), 'job', r.job, 'created', str(now), 'body', ARGV[4])
  redis.call('PEXPIRE', DOC, a.document_ms)
  redis.call('DEL', INPUT)
else
  local kept = redis.call('EXISTS', INPUT) == 1
  publish(r, {status = 'error', outcome = 'failed', reason = 'internal', can_retry = kept and '1' or ''})
end
set(r, {resolved = a.kind, resolved_version = version and str(version) or ''})
return reply{code = 'ok', status = a.kind == 'completed' and 'completed' or 'error', version = version}
