-- A reader has done with everything up to an entry.  KEYS: stream, meta, readers   ARGV: reader, entry id
-- A reader that was unregistered meanwhile stays so. Returns the blocks left.
local position = redis.call('HGET', KEYS[3], ARGV[1])
if position and less(position, ARGV[2]) then redis.call('HSET', KEYS[3], ARGV[1], ARGV[2]) end
return trim(KEYS[1], KEYS[2], KEYS[3])
