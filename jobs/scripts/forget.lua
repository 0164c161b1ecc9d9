-- forget deletes the input of an ended job, which made way for another one's. Safe to repeat.
-- a: job
-- -> code ok | changed (it is not the session's last job any more, or lives)
local r = record()
if r.job ~= a.job or live(r) then return reply{code = 'changed'} end
redis.call('DEL', INPUT)
return reply{code = 'ok'}
