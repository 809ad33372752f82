-- What the next batch of a reader takes, without sending any payload.  KEYS: stream, meta
-- ARGV: after which entry, at most so many blocks, at most so many events (but one block always)
-- Returns the last entry's id ('' for none), what was freed already, and the channel's last entry.
local entries = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2])
local last, rows, taken = '', 0, 0
for _, entry in ipairs(entries) do
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'n' then rows = rows + tonumber(entry[2][i + 1]) end
  end
  if taken > 0 and rows > tonumber(ARGV[3]) then break end
  last, taken = entry[1], taken + 1
end
local state = redis.call('HMGET', KEYS[2], 'trimmed', 'last')
return {last, state[1] or '0-0', state[2] or '0-0'}
