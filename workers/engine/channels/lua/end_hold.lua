-- Nobody is to hold it any more.  KEYS: hash, set of the node, what goes...
-- ARGV: node, name, seconds after which it goes
-- Returns 0 where another holds it.
redis.call('SREM', KEYS[2], ARGV[2])
local holder = redis.call('HGET', KEYS[1], 'node')
if holder and holder ~= '' and holder ~= ARGV[1] then return 0 end
for i = 3, #KEYS do redis.call('EXPIRE', KEYS[i], ARGV[3]) end
return 1
