-- renew keeps a claim alive.
-- a: job, token, lease_ms; of an outside worker also strict (an expired lease
--    cannot be renewed), worker, attempt
-- -> code ok | lost; lease, now
local r, now = record(), now_ms()
if r.job ~= a.job or r.token ~= a.token then return reply{code = 'lost'} end
if a.strict and (num(r.lease) <= now or r.worker ~= a.worker or num(r.attempts) ~= a.attempt) then return reply{code = 'lost'} end
set(r, {lease = now + a.lease_ms})
return reply{code = 'ok', lease = r.lease, now = now}
