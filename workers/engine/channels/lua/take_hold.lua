-- A node holds a live source or sink from now on.  KEYS: hash, set of the node   ARGV: node, name, 1 by force
-- Returns 0 where another holds it.
local holder = redis.call('HGET', KEYS[1], 'node')
if holder and holder ~= '' and holder ~= ARGV[1] and ARGV[3] ~= '1' then return 0 end
redis.call('HSET', KEYS[1], 'node', ARGV[1])
redis.call('SADD', KEYS[2], ARGV[2])
return 1
