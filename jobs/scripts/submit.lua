-- submit starts a job for a new version of the document, or says why not.
-- Safe to repeat with the same job id.
-- a: job, fingerprint, language, replace, idem_ms, deadline_ms, max_attempts,
--    max_calls, allowance, cost_cap (0: none), dependency, queue, input_ms (how long the input may stay), cancels (channel)
-- ARGV 4: the input
-- -> code created | live | job_running | replay | key_reused; job, status, replaced (the cancelled job),
--    run, queue (of that one's task), old (the failed job whose input made way)
local idem = KEYS[6]
if idem then
  local known = redis.call('GET', idem)
  if known then
    known = cjson.decode(known)
    if known.fingerprint ~= a.fingerprint then return reply{code = 'key_reused'} end
    if known.job ~= a.job then
      return reply{code = 'replay', job = known.job, status = known.status, live = known.live}
    end
  end
end
local function remember(job, status, is_live)
  if idem then
    redis.call('SET', idem, cjson.encode{fingerprint = a.fingerprint, job = job, status = status, live = is_live},
      'PX', a.idem_ms)
  end
end

local r = record()
if r.job == a.job then return reply{code = 'created', job = r.job, status = 'queued', old = r.old} end
local l, replaced, run, queue = live(r), nil, r.run, r.queue
if l then
  if r.fingerprint == a.fingerprint then
    remember(r.job, l.status, '1')
    return reply{code = 'live', job = r.job, status = l.status}
  end
  if not a.replace then return reply{code = 'job_running', job = r.job, status = l.status} end
  replaced = r.job
  r.replaced_by = a.job
  finish(r, 'failed', 'cancelled', false, nil, 0)
  redis.call('PUBLISH', a.cancels, replaced)
end
local old = nil
if r.job and not replaced and redis.call('EXISTS', INPUT) == 1 then old = r.job end
start{fingerprint = a.fingerprint, language = a.language, manual = '0', old = old}
redis.call('SET', INPUT, ARGV[4], 'PX', a.input_ms)
remember(a.job, 'queued', nil)
return reply{code = 'created', job = a.job, status = 'queued', replaced = replaced, run = run, queue = queue, old = old}
