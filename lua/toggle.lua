-- toggle.lua: put one fact in the wanted state, and tell the outbox if that
-- changed it.
--
-- KEYS[1]   epoch{t}                             says that this Redis holds all facts;
--           for who puts facts back: restore{t}, that tag's lease
-- KEYS[2]   gone:<type>:<id>{t}                  tombstone
-- KEYS[3]   out{t}                               outbox
-- KEYS[4]   bm:like:<type>:<id>:few{t}           set of ordinals
-- KEYS[5]   bm:like:<type>:<id>:n{t}             population once outgrown
-- KEYS[6]   bm:like:<type>:<id>:<chunk>:few{t}   set of offsets
-- KEYS[7]   bm:like:<type>:<id>:<chunk>{t}       bitmap
-- KEYS[8] … KEYS[11]  the same four for fav
-- KEYS[12]  bm:<metric>:<type>:<id>:chunks{t}    chunk numbers in use
-- ARGV[1]   "1" to set the fact, "0" to clear it
-- ARGV[2]   metric of the fact: "0" like, "1" fav
-- ARGV[3]   ordinal of the viewer
-- ARGV[4]   chunk = ordinal / 32768
-- ARGV[5]   offset = ordinal % 32768
-- ARGV[6]   how many members a set may hold
-- ARGV[7]   how many entries the outbox may hold
-- ARGV[8]   subject, <type>:<id>
-- ARGV[9]   name of the metric
-- ARGV[10]  the viewer's sub
-- ARGV[11]  with the lease: its holder's token
--
-- Returns  {"ok", changed 0|1, like, fav, version, liked 0|1, faved 0|1}: counts
--          and the viewer's own facts after the call; the version is the new
--          entry's, or the outbox's last one when nothing changed
--          {"promote", "few"|"chunk"}: the container is full, nothing changed
--          {"gone"}, {"no epoch"}, {"full"}: refused, nothing changed
--          {"malformed", key}: a value is not what it must be, nothing changed
-- Twice    the second run returns changed 0 and changes nothing.
--
-- Every read, and so every error of type, comes before the first write.
local epoch, gone, out, chunks = KEYS[1], KEYS[2], KEYS[3], KEYS[12]
local want, metric = tonumber(ARGV[1]), tonumber(ARGV[2])
local ordinal, chunk, offset = ARGV[3], ARGV[4], ARGV[5]

if redis.call("EXISTS", gone) == 1 then
  return {"gone"}
end
if redis.call("EXISTS", epoch) == 0 or (ARGV[11] and redis.call("GET", epoch) ~= ARGV[11]) then
  return {"no epoch"}
end
local counts, now, outgrown, isBitmap = {}, {}, {}, {}
for i = 0, 1 do
  local few, n, chunkFew, bitmap = KEYS[4 + 4 * i], KEYS[5 + 4 * i], KEYS[6 + 4 * i], KEYS[7 + 4 * i]
  counts[i], outgrown[i] = population(few, n)
  if not counts[i] then
    return {"malformed", n}
  end
  isBitmap[i] = outgrown[i] and redis.call("EXISTS", bitmap) == 1
  if isBitmap[i] then
    now[i] = redis.call("GETBIT", bitmap, offset)
  elseif outgrown[i] then
    now[i] = redis.call("SISMEMBER", chunkFew, offset)
  else
    now[i] = redis.call("SISMEMBER", few, ordinal)
  end
end

if now[metric] == want then
  return {"ok", 0, counts[0], counts[1], lastVersion(out), now[0], now[1]}
end
if redis.call("XLEN", out) >= tonumber(ARGV[7]) then
  return {"full"}
end

local few, n, chunkFew, bitmap = KEYS[4 + 4 * metric], KEYS[5 + 4 * metric], KEYS[6 + 4 * metric], KEYS[7 + 4 * metric]
local set, member = few, ordinal
if outgrown[metric] then
  set, member = chunkFew, offset
  redis.call("SISMEMBER", chunks, chunk) -- fails here if it is no set
end
if want == 1 and not isBitmap[metric] and redis.call("SCARD", set) >= tonumber(ARGV[6]) then
  return {"promote", outgrown[metric] and "chunk" or "few"}
end

if isBitmap[metric] then
  redis.call("SETBIT", bitmap, offset, want)
elseif want == 1 then
  redis.call("SADD", set, member)
else
  redis.call("SREM", set, member)
end
local delta = want * 2 - 1
now[metric] = want
counts[metric] = math.max(counts[metric] + delta, 0) -- below 0 `n` was wrong; the audit finds out by how much
if outgrown[metric] then
  redis.call("SET", n, string.format("%.0f", counts[metric]))
  if want == 1 then
    redis.call("SADD", chunks, chunk)
  end
end
local version = append(out, "s", ARGV[8], "m", ARGV[9], "u", ARGV[10], "o", ordinal,
  "d", tostring(delta), "l", string.format("%.0f", counts[0]), "f", string.format("%.0f", counts[1]))
return {"ok", 1, counts[0], counts[1], version, now[0], now[1]}
