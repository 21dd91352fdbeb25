-- epoch.lua: say that all facts of a tag are there, and give its lease back.
--
-- KEYS[1]  epoch{t}
-- KEYS[2]  restore{t}  lease
-- ARGV[1]  the holder's token
-- ARGV[2]  value of the epoch
--
-- Returns  1 when the epoch was written, 0 when the lease is somebody else's or
--          there is an epoch
-- Twice    returns 0: the lease is gone.
if redis.call("GET", KEYS[2]) ~= ARGV[1] or redis.call("EXISTS", KEYS[1]) == 1 then
  return 0
end
redis.call("SET", KEYS[1], ARGV[2])
redis.call("DEL", KEYS[2])
return 1
