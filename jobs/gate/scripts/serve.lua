-- Comes after ticket or report: does what some callers ask for, one after
-- the other in their order, as if each had come alone, and reads and writes the
-- state once for all of them.
--
-- KEYS    see state.lua
-- ARGV    for each the arguments of the verb, a permit first
-- Result  for each, in the same order, its answer as {word, a time, now, reason}; times
--         are ms
local permits = {}
for i = 1, #ARGV, takes do permits[#permits + 1] = ARGV[i] end
load(needs, permits)
local answers = {}
for i = 1, #ARGV, takes do
  local word, at, reason = turn(unpack(ARGV, i, i + takes - 1))
  answers[#answers + 1] = {word, at, now, reason}
end
save()
return answers
