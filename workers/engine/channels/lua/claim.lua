-- Who goes on with what a fragment left: whoever asks first.  KEYS: record of the handover   ARGV: manifest, heir
-- Returns 1 where the heir does; 0 where another, or where the manifest is not what is there any more.
if redis.call('HGET', KEYS[1], 'manifest') ~= ARGV[1] then return 0 end
redis.call('HSETNX', KEYS[1], 'claim', ARGV[2])
if redis.call('HGET', KEYS[1], 'claim') == ARGV[2] then return 1 end
return 0
