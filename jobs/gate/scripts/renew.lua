-- renew moves the end of a permit's lease, never beyond cfg.longest after the
-- ticket; see serve.lua.
--
-- Arguments  permit; lease, ms
-- Answer     'renewed', the lease's new end, ''
--            'lost', 0, ''; there is no such permit any more, or never was
local takes = 2
local needs = {}
local function turn(permit, lease)
  local text = record[permit]
  if not text then return 'lost', 0, '' end
  local since = tonumber(string.match(text, '^%d+ %a+ (%d+)'))
  ends[permit] = math.min(now + tonumber(lease), since + cfg.longest)
  return 'renewed', ends[permit], ''
end
