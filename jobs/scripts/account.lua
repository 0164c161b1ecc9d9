-- account adds what a discarded attempt has cost to the ledger of its own job.
-- It is all that may be written without the claim.
-- a: job, lines
-- -> code ok | gone
if redis.call('HGET', JOB, 'job') ~= a.job then return reply{code = 'gone'} end
note(a.lines)
return reply{code = 'ok'}
