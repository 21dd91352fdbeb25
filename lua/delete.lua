-- delete.lua: delete a bounded number of a subject's keys, and keep it deleted.
--
-- KEYS[1]  gone:<type>:<id>{t}
-- KEYS[2]  out{t}
-- KEYS[3]  cnt:v1:<type>:<id>{t}
-- KEYS[4]  bm:like:<type>:<id>:few{t}
-- KEYS[5]  bm:like:<type>:<id>:n{t}
-- KEYS[6]  bm:like:<type>:<id>:chunks{t}
-- KEYS[7]  bm:fav:<type>:<id>:few{t}
-- KEYS[8]  bm:fav:<type>:<id>:n{t}
-- KEYS[9]  bm:fav:<type>:<id>:chunks{t}
-- KEYS[10+2i], KEYS[11+2i]  bitmap and set of chunk i
-- ARGV[1]  how many seconds the tombstone lives
-- ARGV[2]  subject, <type>:<id>
-- ARGV[3+2i], ARGV[4+2i]    metric of chunk i ("0" like, "1" fav) and its number
--
-- Returns  how many chunks are left; the caller reads their numbers and goes on
--          until none is
-- Twice    goes on where the first run ended; the `deleted` event is appended once
--          while the tombstone lives.
--
-- The tombstone comes first: from then on nothing can add a chunk, so the
-- chunks that are left are all there ever will be.
local out, chunks = KEYS[2], {KEYS[6], KEYS[9]}
redis.call("SCARD", chunks[1])
redis.call("SCARD", chunks[2])
redis.call("XLEN", out)

if redis.call("SET", KEYS[1], "1", "NX", "EX", ARGV[1]) then
  append(out, "s", ARGV[2], "m", "", "u", "", "o", "", "d", "0", "l", "0", "f", "0")
end
redis.call("UNLINK", KEYS[3], KEYS[4], KEYS[7])
local at = 10
for i = 3, #ARGV, 2 do
  redis.call("UNLINK", KEYS[at], KEYS[at + 1])
  redis.call("SREM", chunks[tonumber(ARGV[i]) + 1], ARGV[i + 1])
  at = at + 2
end
local left = redis.call("SCARD", chunks[1]) + redis.call("SCARD", chunks[2])
if left == 0 then
  redis.call("UNLINK", KEYS[5], KEYS[8])
end
return left
