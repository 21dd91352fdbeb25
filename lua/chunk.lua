-- chunk.lua: read the facts of one chunk and how new they are, at one moment.
--
-- KEYS[1]  epoch{t}
-- KEYS[2]  gone:<type>:<id>{t}
-- KEYS[3]  out{t}
-- KEYS[4]  bm:<metric>:<type>:<id>:few{t}
-- KEYS[5]  bm:<metric>:<type>:<id>:n{t}
-- KEYS[6]  bm:<metric>:<type>:<id>:<chunk>:few{t}
-- KEYS[7]  bm:<metric>:<type>:<id>:<chunk>{t}
--
-- Returns  {"ok", the outbox's last id, population, members of few, members of
--          the chunk's set, the bitmap's bytes}
--          {"gone"}, {"no epoch"}, {"malformed", key}
-- Twice    reads again; it writes nothing.
if redis.call("EXISTS", KEYS[2]) == 1 then
  return {"gone"}
end
if redis.call("EXISTS", KEYS[1]) == 0 then
  return {"no epoch"}
end
local count = population(KEYS[4], KEYS[5])
if not count then
  return {"malformed", KEYS[5]}
end
return {"ok", lastVersion(KEYS[3]), count, redis.call("SMEMBERS", KEYS[4]), redis.call("SMEMBERS", KEYS[6]), redis.call("GET", KEYS[7]) or ""}
