-- measure adds to the sums of a cohort, all or none.
-- KEYS 1 hash: '<workload> <name>' -> sum
-- ARGV 1 ms until the cohort is forgotten  2.. field, number, field, number, ...
-- -> fields
for i = 2, #ARGV, 2 do redis.call('HINCRBYFLOAT', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return (#ARGV - 1) / 2
