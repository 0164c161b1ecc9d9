-- The rolling window; comes after state.lua in the verbs that need it.

-- count adds a call to the rolling window, whose ten slots share cfg.window.
local function count(calls, bad, slow)
  local slot = math.floor(now / (cfg.window / 10))
  if slot ~= st.slot then
    local kept = {}
    local newest = string.format(' %.0f:%.0f:%.0f:%.0f', st.slot, st.calls, st.bad, st.slow)
    for s, counts in string.gmatch(st.past .. newest, '(%d+):(%S+)') do
      local age = slot - tonumber(s)
      if age > 0 and age < 10 and string.find(counts, '[1-9]') then kept[#kept + 1] = s .. ':' .. counts end
    end
    put('past', table.concat(kept, ' '))
    put('slot', slot)
    put('calls', 0)
    put('bad', 0)
    put('slow', 0)
  end
  if calls > 0 then put('calls', st.calls + calls) end
  if bad > 0 then put('bad', st.bad + bad) end
  if slow > 0 then put('slow', st.slow + slow) end
end

-- seen is how many calls the rolling window holds, and how many bad ones; and beside
-- them how many rate-limited ones.
local function seen()
  count(0, 0, 0)
  local calls, bad, slow = st.calls, st.bad, st.slow
  for c, b, s in string.gmatch(st.past, ':(%d+):(%d+):(%d+)') do
    calls, bad, slow = calls + tonumber(c), bad + tonumber(b), slow + tonumber(s)
  end
  return calls, bad, slow
end
