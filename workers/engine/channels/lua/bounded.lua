-- Fields of a hash that somebody else writes, none longer than it may be.  KEYS: hash   ARGV: most bytes, fields
-- Returns a value for each, nil where there is none; of one that is longer an empty text, and nothing of it is read.
local values = {}
for i = 2, #ARGV do
  local is_long = redis.call('HSTRLEN', KEYS[1], ARGV[i]) > tonumber(ARGV[1])
  values[i - 1] = is_long and '' or redis.call('HGET', KEYS[1], ARGV[i])
end
return values
