-- A reader leaves; what only it held back is freed.  KEYS: stream, meta, readers   ARGV: reader, 1 if for good
-- What the copies of its state hold goes with it. One that leaves for good gets no place here again, whoever asks by an
-- older plan. Returns how many readers remain.
local place = redis.call('HGET', KEYS[3], ARGV[1])
if place and ARGV[2] == '1' and redis.call('HEXISTS', KEYS[2], 'capacity') == 1 then
  redis.call('HSETNX', KEYS[2], 'limit:' .. ARGV[1], place)
end
redis.call('HDEL', KEYS[3], ARGV[1], ARGV[1] .. '~copies')
redis.call('HDEL', KEYS[2], 'spill:' .. ARGV[1], 'lose:' .. ARGV[1], 'skip:' .. ARGV[1])
trim(KEYS[1], KEYS[2], KEYS[3])
return redis.call('HLEN', KEYS[3])
