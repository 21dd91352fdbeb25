-- recount.lua: count the facts of one metric in their containers, and mend `n`.
--
-- KEYS[1]       epoch{t}
-- KEYS[2]       gone:<type>:<id>{t}
-- KEYS[3]       out{t}
-- KEYS[4]       bm:<metric>:<type>:<id>:n{t}
-- KEYS[5]       bm:<metric>:<type>:<id>:chunks{t}
-- KEYS[4+2i], KEYS[5+2i]   bitmap and set of chunk i (i = 1, 2, …)
-- ARGV[1]       what earlier slices counted, "0" in the first one
-- ARGV[2]       the outbox's last id at the first slice, "" in that one
-- ARGV[3]       in the last slice how many chunks all slices named, else ""
-- ARGV[4]       "look": write nothing
--
-- Returns  {"ok", count so far, the outbox's last id, `n` as it was or ""}
--          {"changed"}: something of this tag changed since the first slice
--          {"declined"}: the subject has other chunks than those named; ask again
--          {"gone"}, {"no epoch"}: refused
-- Twice    the second run finds `n` right.
--
-- `n` is written in the last slice only, and only if nothing changed since the
-- first: a like in a chunk already counted and an unlike in one still to come
-- leave `n` as it was, so comparing that would not tell. A subject without `n`
-- has all facts in `few`, where SCARD counts them: then nothing is written.
if redis.call("EXISTS", KEYS[2]) == 1 then
  return {"gone"}
end
if redis.call("EXISTS", KEYS[1]) == 0 then
  return {"no epoch"}
end
local last = lastVersion(KEYS[3])
if ARGV[2] ~= "" and ARGV[2] ~= last then
  return {"changed"}
end
local count = tonumber(ARGV[1])
for i = 6, #KEYS, 2 do
  count = count + redis.call("BITCOUNT", KEYS[i]) + redis.call("SCARD", KEYS[i + 1])
end
local n = redis.call("GET", KEYS[4])
if ARGV[3] == "" or not n then
  return {"ok", count, last, n or ""}
end
if redis.call("SCARD", KEYS[5]) ~= tonumber(ARGV[3]) then
  return {"declined"}
end
local right = string.format("%.0f", count)
if n ~= right and ARGV[4] ~= "look" then
  redis.call("SET", KEYS[4], right)
end
return {"ok", count, last, n}
