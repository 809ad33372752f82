-- Registers readers; one that is there keeps its place.  KEYS: stream, meta, readers   ARGV: reader...
-- A new channel is read from its beginning, one in use from now on. All are refused (`WEIRREADERS`) where there would be
-- more than a channel has.
local new = 0
for _, reader in ipairs(ARGV) do new = new + 1 - redis.call('HEXISTS', KEYS[3], reader) end
local refusal = new > 0 and require_room(KEYS[1], KEYS[3], new)
if refusal then return refusal end
local from = redis.call('HGET', KEYS[2], 'last') or '0-0'
for _, reader in ipairs(ARGV) do redis.call('HSETNX', KEYS[3], reader, from) end
return from
