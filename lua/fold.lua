-- fold.lua: copy the population of the facts, as it is now, into the snapshot.
--
-- KEYS[1]  epoch{t}
-- KEYS[2]  gone:<type>:<id>{t}
-- KEYS[3]  out{t}
-- KEYS[4]  bm:like:<type>:<id>:few{t}
-- KEYS[5]  bm:like:<type>:<id>:n{t}
-- KEYS[6]  bm:fav:<type>:<id>:few{t}
-- KEYS[7]  bm:fav:<type>:<id>:n{t}
-- KEYS[8]  cnt:v1:<type>:<id>{t}   28 bytes: view, like, fav, comment, share as
--          big-endian uint32, then the version as uint64
-- ARGV[1]  upper 32 bits of the version whose change is folded, 0 for none
-- ARGV[2]  lower 32 bits
-- ARGV[3]  "draw": take a fresh version, also for a snapshot that is well formed
--          "look": write nothing, say what would be written
--
-- Returns  {"ok", old snapshot or "", new snapshot}
--          {"gone"}, {"no epoch"}, {"malformed", key}: nothing changed
-- Twice    the second run finds what it would write, so it writes nothing.
--
-- Slots without facts (view, comment, share) are kept. The version becomes the
-- higher of the caller's and the snapshot's; a snapshot that is missing or has
-- another length is made anew, with a version drawn from the outbox, since then
-- nobody knows which changes the facts contain.
if redis.call("EXISTS", KEYS[2]) == 1 then
  return {"gone"}
end
if redis.call("EXISTS", KEYS[1]) == 0 then
  return {"no epoch"}
end
local like = population(KEYS[4], KEYS[5])
if not like then
  return {"malformed", KEYS[5]}
end
local fav = population(KEYS[6], KEYS[7])
if not fav then
  return {"malformed", KEYS[7]}
end

local max32 = 4294967295
local function u32(x)
  if x > max32 then
    x = max32
  end
  return string.char(math.floor(x / 16777216) % 256, math.floor(x / 65536) % 256, math.floor(x / 256) % 256, x % 256)
end
local function fromU32(s, i)
  local a, b, c, d = string.byte(s, i, i + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

local zero = string.rep("\0", 4)
local old = redis.call("GET", KEYS[8]) or ""
local view, comment, share = zero, zero, zero
local high, low = tonumber(ARGV[1]), tonumber(ARGV[2])
local formed = #old == 28
if formed then
  view, comment, share = string.sub(old, 1, 4), string.sub(old, 13, 16), string.sub(old, 17, 20)
end
if formed and ARGV[3] ~= "draw" then
  local oldHigh, oldLow = fromU32(old, 21), fromU32(old, 25)
  if oldHigh > high or (oldHigh == high and oldLow > low) then
    high, low = oldHigh, oldLow
  end
elseif ARGV[3] ~= "look" then
  local id = append(KEYS[3], "drawn", "")
  redis.call("XDEL", KEYS[3], id)
  local ms, sequence = string.match(id, "^(%d+)-(%d+)$")
  high = math.floor(tonumber(ms) / 4096)
  low = (tonumber(ms) % 4096) * 1048576 + tonumber(sequence)
end

local new = view .. u32(like) .. u32(fav) .. comment .. share .. u32(high) .. u32(low)
if new ~= old and ARGV[3] ~= "look" then
  redis.call("SET", KEYS[8], new)
end
return {"ok", old, new}
