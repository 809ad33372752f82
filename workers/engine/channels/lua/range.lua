-- Where a batch ends that begins at a place.  KEYS: ranges   ARGV: fragment, place, end ('' to ask only)
-- The first end that is recorded for a place counts, also for who goes on from a copy of the query's state. Returns the
-- end that counts, '' where there is none yet. Without copies of the state nothing is recorded.
local state = redis.call('HMGET', KEYS[1], 'owner', 'next', 'from:' .. ARGV[2])
if not state[1] then return ARGV[3] end
if state[1] ~= ARGV[1] then
  return redis.error_reply('WEIROVERTAKEN ' .. ARGV[1] .. ': ' .. state[1] .. ' goes on with it on another node')
end
if state[3] then return state[3] end
if ARGV[3] == '' then return '' end
if state[2] ~= ARGV[2] then
  return redis.error_reply(
    'WEIROVERTAKEN ' .. ARGV[1] .. ': no batch begins at ' .. ARGV[2] .. '; the next one is at ' .. (state[2] or 'none'))
end
redis.call('HSET', KEYS[1], 'from:' .. ARGV[2], ARGV[3], 'next', ARGV[3])
return ARGV[3]
