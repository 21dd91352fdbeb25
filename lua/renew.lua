-- renew.lua: keep a lease that one still holds.
--
-- KEYS[1]  the lease
-- ARGV[1]  the holder's token
-- ARGV[2]  how many milliseconds it lasts from now on
--
-- Returns  1 when it was the caller's still, 0 when it was not
-- Twice    renews again.
--
-- Unlike lease.lua it takes no lease that is free: that it is gone may mean that
-- Redis was emptied, and with it what was done under the lease.
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 0
