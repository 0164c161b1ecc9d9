-- The rolling window; comes after state.lua in the verbs that need it.

-- count adds a call to the rolling window, whose ten slots share cfg.window.
local function count(calls, bad)
  local slot = math.floor(now / (cfg.window / 10))
  if slot ~= st.slot then
    local kept = {}
    for s, c, b in string.gmatch(st.past .. string.format(' %.0f:%.0f:%.0f', st.slot, st.calls, st.bad), '(%d+):(%d+):(%d+)') do
      local age = slot - tonumber(s)
      if age > 0 and age < 10 and c ~= '0' then kept[#kept + 1] = s .. ':' .. c .. ':' .. b end
    end
    put('past', table.concat(kept, ' '))
    put('slot', slot)
    put('calls', 0)
    put('bad', 0)
  end
  if calls > 0 then put('calls', st.calls + calls) end
  if bad > 0 then put('bad', st.bad + bad) end
end

-- seen is how many calls the rolling window holds, and how many bad ones.
local function seen()
  count(0, 0)
  local calls, bad = st.calls, st.bad
  for c, b in string.gmatch(st.past, ':(%d+):(%d+)') do
    calls, bad = calls + tonumber(c), bad + tonumber(b)
  end
  return calls, bad
end
