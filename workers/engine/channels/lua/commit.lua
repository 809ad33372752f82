-- A reader has done with everything up to an entry.  KEYS: stream, meta, readers   ARGV: reader, entry id
-- A reader that was unregistered meanwhile stays so; one that has come to its limit there is gone. Returns the blocks
-- left.
local position = redis.call('HGET', KEYS[3], ARGV[1])
local limit = position and redis.call('HGET', KEYS[2], 'limit:' .. ARGV[1])
if position and less(position, ARGV[2]) then
  position = ARGV[2]
  redis.call('HSET', KEYS[3], ARGV[1], position)
end
if limit and not less(position, limit) then redis.call('HDEL', KEYS[3], ARGV[1]) end
return trim(KEYS[1], KEYS[2], KEYS[3])
