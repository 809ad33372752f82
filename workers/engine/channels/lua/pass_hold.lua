-- Another node holds it from now on, and notes so itself when it takes it.  KEYS: hash, set of the node
-- ARGV: node, name, next node.  Returns 0 where this one does not hold it.
redis.call('SREM', KEYS[2], ARGV[2])
if redis.call('HGET', KEYS[1], 'node') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'node', ARGV[3])
return 1
