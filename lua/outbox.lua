-- outbox.lua: how an entry gets its version. It stands in front of the scripts
-- that append to `out{t}` when they are loaded.

-- A version packs the id into 44 bits of milliseconds and 20 of sequence. Redis
-- counts the sequence up for as long as its clock stands still or has stepped
-- back, so it can outgrow the 20 bits: then the entry moves to the next
-- millisecond. Nothing can fail after the first XADD.
local maxSequence = 1048575

local function append(out, ...)
  local id = redis.call("XADD", out, "*", ...)
  local ms, sequence = string.match(id, "^(%d+)-(%d+)$")
  if tonumber(sequence) <= maxSequence then
    return id
  end
  redis.call("XDEL", out, id)
  return redis.call("XADD", out, string.format("%.0f-0", tonumber(ms) + 1), ...)
end

-- lastVersion is the id of the newest entry the outbox ever had, also when that
-- has been acknowledged and removed; "0-0" when there never was one.
local function lastVersion(out)
  if redis.call("EXISTS", out) == 0 then
    return "0-0"
  end
  local info = redis.call("XINFO", "STREAM", out)
  for i = 1, #info, 2 do
    if info[i] == "last-generated-id" then
      return info[i + 1]
    end
  end
  return "0-0"
end
