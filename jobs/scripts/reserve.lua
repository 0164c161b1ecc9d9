-- reserve counts one call, the last step before it is sent. It only grows:
-- nothing is refunded. Safe to repeat with the same token and call.
-- a: job, token, call (from 1 in this attempt), spent (what the job's calls cost with this one at most; absent:
--    nobody knows)
-- -> code ok | exhausted | cost | lost | deadline; calls
local r, now = record(), now_ms()
if r.job ~= a.job or r.token ~= a.token or num(r.lease) <= now then return reply{code = 'lost'} end
local this = a.token .. ':' .. str(a.call)
if r.reserved == this then return reply{code = 'ok', calls = r.calls} end
if now >= num(r.deadline) then return reply{code = 'deadline'} end
if num(r.calls) >= num(r.allowance) then return reply{code = 'exhausted', calls = r.calls} end
if r.cap and a.spent and a.spent > num(r.cap) then return reply{code = 'cost', calls = r.calls} end
if a.call > 1 then publish(r, {status = 'processing', call = a.call, max_calls = r.max_calls}) end
set(r, {calls = num(r.calls) + 1, reserved = this, spent = a.spent})
return reply{code = 'ok', calls = r.calls}
