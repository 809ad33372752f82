-- The blocks of a range and their events, without any payload.  KEYS: stream   ARGV: after which entry, up to which
-- Returns id, events, id, events…
local sizes = {}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], ARGV[2])) do
  sizes[#sizes + 1] = entry[1]
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'n' then sizes[#sizes + 1] = tonumber(entry[2][i + 1]) end
  end
end
return sizes
