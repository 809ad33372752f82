-- Registers readers; one that is there keeps its place.  KEYS: stream, meta, readers   ARGV: reader...
-- A new channel is read from its beginning, one in use from now on.
local from = redis.call('HGET', KEYS[2], 'last') or '0-0'
for _, reader in ipairs(ARGV) do redis.call('HSETNX', KEYS[3], reader, from) end
return from
