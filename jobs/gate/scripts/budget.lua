-- The two buckets; comes after state.lua in the verbs that need them.

-- fill adds to the buckets what time and first calls have earned since the last
-- time. It may come late: in between nobody takes anything.
local function fill()
  local seconds = 0
  if st.filled > 0 then seconds = math.max(0, now - st.filled) / 1000 end
  local earned = cfg.retry_per_second * seconds + cfg.retry_per_first * st.firsts
  put('retry', math.min(cfg.retry_burst, st.retry + earned))
  put('manual', math.min(cfg.manual_burst, st.manual + cfg.manual_share * earned))
  put('filled', math.max(now, st.filled))
  put('firsts', 0)
end

-- one_token_at is the moment from which on time alone has filled a bucket to one
-- token.
local function one_token_at(tokens, per_second)
  return now + math.ceil(math.max(0, 1 - tokens) / per_second * 1000)
end
