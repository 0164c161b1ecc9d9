-- pause tells that a call failed and the next one of the same attempt follows.
-- Safe to repeat: the second time it is just told again.
-- a: job, token, call (the one that failed), pause_ms, reason, lines (ledger), spent (the calls' cost so far)
-- -> code ok | lost; at
local r, now = record(), now_ms()
if not live(r) or r.job ~= a.job or r.token ~= a.token or num(r.lease) <= now then return reply{code = 'lost'} end
local at = now + a.pause_ms
publish(r, {status = 'retrying', layer = 'call', call = a.call, next_call = a.call + 1,
  max_calls = r.max_calls, next_retry = at, reason = a.reason})
set(r, {spent = amount(a.spent)})
note(a.lines)
return reply{code = 'ok', at = at}
