-- Another node holds it from now on.  KEYS: hash, set of the node, set of the next one   ARGV: node, name, next node
-- Returns 0 where this one does not hold it.
redis.call('SREM', KEYS[2], ARGV[2])
if redis.call('HGET', KEYS[1], 'node') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'node', ARGV[3])
redis.call('SADD', KEYS[3], ARGV[2])
return 1
