-- ack.lua: remove outbox entries that the broker has acknowledged.
--
-- KEYS[1]    out{t}
-- ARGV[8i+1] id of entry i (i = 0, 1, …)
-- ARGV[8i+2] … ARGV[8i+8]  the values of its seven fields, in their order, as they
--            were published
--
-- Returns  how many entries were removed
-- Twice    the second run removes nothing.
--
-- An id can recur: a failover may lose the tail of the stream, and the new
-- master gives the same ids to other changes. So an entry goes only if it still
-- is the one that was published.
local removed = 0
for i = 1, #ARGV, 8 do
  local found = redis.call("XRANGE", KEYS[1], ARGV[i], ARGV[i])
  if #found == 1 then
    local fields, same = found[1][2], true
    for j = 1, 7 do
      if fields[2 * j] ~= ARGV[i + j] then
        same = false
      end
    end
    if same and #fields == 14 then
      removed = removed + redis.call("XDEL", KEYS[1], ARGV[i])
    end
  end
end
return removed
