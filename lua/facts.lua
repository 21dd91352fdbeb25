-- facts.lua: what the scripts below share about the facts. It stands in front
-- of toggle.lua, fold.lua and recount.lua when they are loaded.

-- A count is refused above 15 digits: beyond 2^53 Lua's doubles would round it.
local function natural(text)
  if #text > 15 or not string.match(text, "^%d+$") then
    return nil
  end
  return tonumber(text)
end

-- population counts the facts of one metric from its keys `few` and `n`.
--
-- Returns  the population, and whether the subject has outgrown `few`;
--          nil and true when `n` is no number (only a deep recount can tell).
local function population(few, n)
  local stored = redis.call("GET", n)
  if not stored then
    return redis.call("SCARD", few), false
  end
  return natural(stored), true
end
