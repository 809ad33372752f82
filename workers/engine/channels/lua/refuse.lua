-- Keeps events that another system refused, each once.  KEYS: letters, state of the sink
-- ARGV: how many are kept, now in ms, then for each: id, reason, place, sample, event
-- Returns how many are new: those of a batch that is repeated are there already.
local new = 0
for i = 3, #ARGV, 5 do
  local added = redis.pcall('XADD', KEYS[1], 'MAXLEN', ARGV[1], ARGV[i], 'reason', ARGV[i + 1], 'place', ARGV[i + 2],
    'sample', ARGV[i + 3], 'b', ARGV[i + 4], 't', ARGV[2])
  if type(added) ~= 'table' or not added.err then
    new = new + 1
  elseif not string.find(added.err, 'equal or smaller', 1, true) then
    return added
  end
end
if new > 0 then redis.call('HINCRBY', KEYS[2], 'refused', new) end
return new
