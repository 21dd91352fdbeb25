-- restore.lua: one step of writing a metric's facts of one subject from the
-- archive, by the holder of the tag's lease.
--
-- KEYS[1]  epoch{t}
-- KEYS[2]  restore{t}                          lease
-- KEYS[3]  gone:<type>:<id>{t}
-- KEYS[4]  bm:<metric>:<type>:<id>:few{t}
-- KEYS[5]  bm:<metric>:<type>:<id>:n{t}
-- KEYS[6]  bm:<metric>:<type>:<id>:chunks{t}
-- ARGV[1]  the holder's token
-- ARGV[2]  the step:
--   "few"     ARGV[3] …  all ordinals that there are, none as well. Where chunks
--             are left of before nothing is done: clear them first.
--   "clear"   ARGV[2+i]  chunk i, with KEYS[5+2i] and KEYS[6+2i] its bitmap and
--             set: they go, with few and n
--   "set"     ARGV[3]    a chunk, with KEYS[7] and KEYS[8] its bitmap and set
--             ARGV[4] …  all offsets in it
--   "bitmap"  the same, with ARGV[4] the bitmap's bytes
--   "n"       ARGV[3]    population of a subject in chunks: the last step of it
--
-- Returns  {"ok", how many chunks are listed}
--          {"lost"}: somebody else has the lease, or has written the epoch
--          {"gone"}: the subject was deleted meanwhile
-- Twice    the second run writes the same again.
--
-- Who was paused for longer than the lease lasts writes nothing any more, and a
-- finished restore is never written over: the facts are the readers' then.
if redis.call("GET", KEYS[2]) ~= ARGV[1] or redis.call("EXISTS", KEYS[1]) == 1 then
  return {"lost"}
end
if redis.call("EXISTS", KEYS[3]) == 1 then
  return {"gone"}
end
local few, n, chunks, step = KEYS[4], KEYS[5], KEYS[6], ARGV[2]
local listed = redis.call("SCARD", chunks)

local function add(set, first)
  for from = first, #ARGV, 1000 do -- unpack has a limit
    redis.call("SADD", set, unpack(ARGV, from, math.min(from + 999, #ARGV)))
  end
end

if step == "few" then
  if listed == 0 then
    redis.call("DEL", few, n)
    add(few, 3)
  end
elseif step == "clear" then
  redis.call("DEL", few, n)
  for i = 3, #ARGV do
    redis.call("UNLINK", KEYS[2 * i + 1], KEYS[2 * i + 2])
    redis.call("SREM", chunks, ARGV[i])
  end
elseif step == "n" then
  redis.call("SET", n, ARGV[3])
else
  redis.call("DEL", KEYS[7], KEYS[8])
  redis.call("SADD", chunks, ARGV[3])
  if step == "bitmap" then
    redis.call("SET", KEYS[7], ARGV[4])
  else
    add(KEYS[8], 4)
  end
end
return {"ok", redis.call("SCARD", chunks)}
