-- fence.lua: stop likes of a tag for a moment, by the holder of its lease.
--
-- KEYS[1]  epoch{t}
-- KEYS[2]  restore{t}  lease
-- ARGV[1]  the holder's token
--
-- Returns  1 when the epoch is gone, 0 when the lease is somebody else's
-- Twice    the second run finds no epoch.
--
-- epoch.lua ends it. If the holder dies, the tag is restored like an emptied one.
if redis.call("GET", KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call("DEL", KEYS[1])
return 1
