-- A reader's node has on disk what follows its place, up to an entry.  KEYS: stream, meta, readers   ARGV: reader, entry id
-- Up to there the reader holds nothing back. One that is past it, or is not registered, has no such mark. Returns the
-- mark in force, or ''.
local mark = 'spill:' .. ARGV[1]
local place = redis.call('HGET', KEYS[3], ARGV[1])
local known = redis.call('HGET', KEYS[2], mark)
local wanted = known and less(ARGV[2], known) and known or ARGV[2]
if not place or redis.call('HEXISTS', KEYS[2], 'capacity') == 0 or not less(place, wanted) then
  redis.call('HDEL', KEYS[2], mark)
  return ''
end
redis.call('HSET', KEYS[2], mark, wanted)
trim(KEYS[1], KEYS[2], KEYS[3])
return wanted
