-- read answers with a topic's state, and with the input if that is wanted.
-- ARGV 1 field of the reports, or ''  2 '1' for the input
local answer = state(clock(), ARGV[1])
if ARGV[2] == '1' then answer[#answer + 1] = redis.call('GET', KEYS[3]) or '' end
return answer
