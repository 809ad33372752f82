-- KEYS: valve   ARGV: position of the valve to close, or '' to open the tail; the first batch it is closed for, or ''
-- Until the boundary (`tail:from`) is set, here or by the valve, the tail that was in force (`tail:was`) stays in force.
local state = redis.call('HMGET', KEYS[1], 'tail', 'tail:from')
if ARGV[1] ~= '' and ARGV[2] ~= '' then
  redis.call('HDEL', KEYS[1], 'tail:was')
  redis.call('HSET', KEYS[1], 'tail', ARGV[1], 'tail:from', ARGV[2])
  return ((state[1] or '') == ARGV[1] and state[2] == ARGV[2]) and 0 or 1
end
if (state[1] or '') == ARGV[1] then return 0 end
if state[1] and state[2] then redis.call('HSET', KEYS[1], 'tail:was', state[1]) end
redis.call('HDEL', KEYS[1], 'tail', 'tail:from')
if ARGV[1] == '' then redis.call('HDEL', KEYS[1], 'tail:was') else redis.call('HSET', KEYS[1], 'tail', ARGV[1]) end
return 1
