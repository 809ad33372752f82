-- A fragment goes on with the recorded ranges of another one, which records none any more.  KEYS: ranges, its own
-- ARGV: fragment, for how many seconds the other one is told
-- Returns 1 where it has them, also from before; 0 where there are none.
if redis.call('HGET', KEYS[2], 'owner') == ARGV[1] then return 1 end
local owner = redis.call('HGET', KEYS[1], 'owner')
if not owner or redis.call('HEXISTS', KEYS[1], 'next') == 0 then return 0 end
local recorded = redis.call('HGETALL', KEYS[1])  -- not renamed: slots may rename nothing
redis.call('DEL', KEYS[1], KEYS[2])
for at = 1, #recorded, 1000 do
  redis.call('HSET', KEYS[2], unpack(recorded, at, math.min(at + 999, #recorded)))
end
redis.call('HSET', KEYS[2], 'owner', ARGV[1])
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
