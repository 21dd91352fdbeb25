-- lease.lua: take a lease, or renew one's own.
--
-- KEYS[1]  the lease
-- ARGV[1]  the holder's token
-- ARGV[2]  how many milliseconds it lasts
--
-- Returns  1 when the caller holds it now, 0 when somebody else does
-- Twice    renews.
local holder = redis.call("GET", KEYS[1])
if holder and holder ~= ARGV[1] then
  return 0
end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1
