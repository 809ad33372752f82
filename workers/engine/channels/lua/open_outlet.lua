-- KEYS: valve   ARGV: position, first batch or ''
-- An outlet that is open stays as it is; one that opens without a first batch gets that from the valve, at a batch boundary.
local outlet, from = ARGV[1] .. ':outlet', ARGV[1] .. ':from'
if redis.call('HGET', KEYS[1], outlet) == 'open' then return 0 end
redis.call('HDEL', KEYS[1], from)
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], from, ARGV[2]) end
redis.call('HSET', KEYS[1], outlet, 'open')
return 1
