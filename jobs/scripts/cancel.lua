-- cancel ends the live job. Safe to repeat.
-- a: cancels (channel)
-- -> code cancelled | ended | unknown; job, status, run, queue (of its task)
local r, l = record(), last(LOG)
if not l then return reply{code = 'unknown'} end
if ended(l) or not live(r) then return reply{code = 'ended', job = l.job, status = l.status} end
finish(r, 'failed', 'cancelled', false, nil, 0)
redis.call('PUBLISH', a.cancels, r.job)
return reply{code = 'cancelled', job = r.job, status = 'error', run = r.run, queue = r.queue}
