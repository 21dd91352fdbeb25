-- release.lua: give a lease back.
--
-- KEYS[1]  the lease
-- ARGV[1]  the holder's token
--
-- Returns  1 when it was the caller's and is free now, 0 when it was not
-- Twice    returns 0; a lease that somebody else took meanwhile is left alone.
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
