-- A new fencing token for who holds it.  KEYS: hash, what has the token   ARGV: node
-- Returns 0 where another does.
if (redis.call('HGET', KEYS[1], 'node') or '') ~= ARGV[1] then return 0 end
return redis.call('HINCRBY', KEYS[2], 'fence', 1)
