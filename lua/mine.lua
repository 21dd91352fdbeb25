-- mine.lua: remember a viewer's own last change of one subject.
--
-- KEYS[1]  mine:<hash of the sub>   hash: subject -> 16 bytes (like and fav as
--          big-endian uint32, version as uint64), "#" -> the viewer's ordinal
-- ARGV[1]  subject, <type>:<id>
-- ARGV[2]  like, fav and version in 16 bytes
-- ARGV[3]  the viewer's ordinal
-- ARGV[4]  how many seconds it is remembered
-- ARGV[5]  how many subjects at most
--
-- Returns  1 when remembered, 0 when a newer change of the subject is there
-- Twice    the second run writes the same again.
--
-- Two servers may write for one viewer at once; the higher version wins. Past
-- the limit everything older is forgotten: own counts may then lag by a fold,
-- and the hash can't grow for ever under a viewer who never pauses.
local old = redis.call("HGET", KEYS[1], ARGV[1])
if old and #old == 16 then
  for i = 9, 16 do
    local was, is = string.byte(old, i), string.byte(ARGV[2], i)
    if was > is then
      return 0
    end
    if was < is then
      break
    end
  end
end
if redis.call("HLEN", KEYS[1]) > tonumber(ARGV[5]) then
  redis.call("DEL", KEYS[1])
end
redis.call("HSET", KEYS[1], ARGV[1], ARGV[2], "#", ARGV[3])
redis.call("EXPIRE", KEYS[1], ARGV[4])
return 1
