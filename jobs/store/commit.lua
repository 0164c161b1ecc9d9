-- commit stores what was decided on a job, all of it or nothing. It knows nothing of jobs: their rules are package
-- lifecycle's. Safe to repeat with the same new version.
-- ARGV  1 verb, for whoever reads the slow log  2 field of the reports, or ''
--       3 version that it was decided on, '' for no record  4 version that it makes
--       5 ms when it was decided  6 ms for which that holds  7 ms to keep record and log
--       8 record ('': it stays)  9 channel of live copies  10 transitions that a log keeps
--       11 how many transitions; for each: seq, copy (JSON), how many fields and values, these
--       then for each other write: command, number of its key (0: the first argument is a channel), how many arguments, these
-- -> now if it was stored, or else the state to decide on
local now, stored = clock(), redis.call('HGET', KEYS[1], 'version') or ''
if ARGV[8] ~= '' and stored == ARGV[4] then return now end
if stored ~= ARGV[3] or math.abs(now - ARGV[5]) > tonumber(ARGV[6]) then return state(now, ARGV[2]) end

local at = 12
local function list(n)
  at = at + n
  return unpack(ARGV, at - n, at - 1)
end
local transitions, writes = {}, {}
for i = 1, tonumber(ARGV[11]) do
  local seq, copy, n = list(3)
  transitions[i] = {seq = seq, copy = copy, fields = {list(tonumber(n))}}
end
-- Redis takes nothing back of a script that fails midway: what could fail is looked at before the first write.
local needs, checked = {HSET = 'hash', RPUSH = 'list'}, {}
while at <= #ARGV do
  local command, key, n = list(3)
  key = KEYS[tonumber(key)]
  if key then
    writes[#writes + 1] = {command, key, list(tonumber(n))}
  else
    writes[#writes + 1] = {command, list(tonumber(n))}
  end
  if needs[command] and not checked[key] then
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' and kind ~= needs[command] then
      return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. kind .. ', delete it')
    end
    checked[key] = true
  end
end

for _, t in ipairs(transitions) do
  redis.call('XADD', KEYS[2], 'MAXLEN', '=', ARGV[10], t.seq .. '-0', unpack(t.fields))
end
if #transitions > 0 then
  redis.call('HSET', KEYS[1], 'version', ARGV[4], 'job', ARGV[8], 'last', transitions[#transitions].copy)
  redis.call('PEXPIRE', KEYS[2], ARGV[7])
elseif ARGV[8] ~= '' then
  redis.call('HSET', KEYS[1], 'version', ARGV[4], 'job', ARGV[8])
end
redis.call('PEXPIRE', KEYS[1], ARGV[7])
for _, write in ipairs(writes) do redis.call(unpack(write)) end
for _, t in ipairs(transitions) do redis.call('PUBLISH', ARGV[9], t.copy) end
return now
