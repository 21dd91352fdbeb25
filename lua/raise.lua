-- raise.lua: make the outbox's next version higher than one that the archive
-- knows, by the holder of the tag's lease.
--
-- KEYS[1]  epoch{t}
-- KEYS[2]  restore{t}  lease
-- KEYS[3]  out{t}
-- ARGV[1]  the holder's token
-- ARGV[2]  id that the next version must not be below, <ms>-<sequence>
--
-- Returns  {"ok", the outbox's last id now}
--          {"lost"}: somebody else has the lease, or there is an epoch
-- Twice    the second run finds it raised.
--
-- A lost master's clock may have been ahead: without this new changes would get
-- versions below old ones, and be declined as old. A stream keeps its last id
-- when its entry goes.
if redis.call("GET", KEYS[2]) ~= ARGV[1] or redis.call("EXISTS", KEYS[1]) == 1 then
  return {"lost"}
end
local function parts(id)
  local ms, sequence = string.match(id, "^(%d+)-(%d+)$")
  return tonumber(ms), tonumber(sequence)
end
local last = lastVersion(KEYS[3])
local lastMs, lastSequence = parts(last)
local ms, sequence = parts(ARGV[2])
if lastMs > ms or (lastMs == ms and lastSequence >= sequence) then
  return {"ok", last}
end
redis.call("XADD", KEYS[3], ARGV[2], "raised", "")
redis.call("XDEL", KEYS[3], ARGV[2])
return {"ok", ARGV[2]}
