-- promote.lua: move facts into the next larger container.
--
-- KEYS[1]   epoch{t}
-- KEYS[2]   gone:<type>:<id>{t}
-- KEYS[3]   the full set: bm:<metric>:<type>:<id>:few{t}, or
--           bm:<metric>:<type>:<id>:<chunk>:few{t}
-- ARGV[1]   "few": split a subject's set into chunk sets
--             KEYS[4]   bm:<metric>:<type>:<id>:n{t}
--             KEYS[5]   bm:<metric>:<type>:<id>:chunks{t}
--             KEYS[5+i] bm:<metric>:<type>:<id>:<chunk i>:few{t}
--             ARGV[1+i] chunk i
--           "chunk": turn a chunk's set into a bitmap
--             KEYS[4]   bm:<metric>:<type>:<id>:<chunk>{t}
--
-- Returns  "ok": moved, or moved already
--          "declined": the set has a member of a chunk that was not named; ask again
--          "gone", "no epoch": refused
-- Twice    the second run finds the set empty, and `n` or the bitmap there: nothing
--          changes.
--
-- A reader asks few, chunk set and bitmap in this order, so it can't miss a
-- fact that moves between two of its reads.
if redis.call("EXISTS", KEYS[2]) == 1 then
  return "gone"
end
if redis.call("EXISTS", KEYS[1]) == 0 then
  return "no epoch"
end
local members = redis.call("SMEMBERS", KEYS[3])

if ARGV[1] == "chunk" then
  if #members == 0 then
    return "ok"
  end
  redis.call("GETBIT", KEYS[4], 0) -- fails here if it is no bitmap
  for _, offset in ipairs(members) do
    redis.call("SETBIT", KEYS[4], offset, 1)
  end
  redis.call("DEL", KEYS[3])
  return "ok"
end

if redis.call("EXISTS", KEYS[4]) == 1 then
  return "ok"
end
local named, parts = {}, {}
for i = 2, #ARGV do
  named[ARGV[i]] = KEYS[4 + i]
  redis.call("SCARD", KEYS[4 + i]) -- fails here if it is no set
end
redis.call("SCARD", KEYS[5])
for _, ordinal in ipairs(members) do
  local chunk = string.format("%.0f", math.floor(ordinal / 32768))
  if not named[chunk] then
    return "declined"
  end
  parts[#parts + 1] = {chunk, ordinal % 32768}
end
for _, part in ipairs(parts) do
  redis.call("SADD", named[part[1]], string.format("%.0f", part[2]))
  redis.call("SADD", KEYS[5], part[1])
end
redis.call("SET", KEYS[4], string.format("%.0f", #parts))
redis.call("DEL", KEYS[3])
return "ok"
