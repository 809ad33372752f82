-- A reader leaves; what only it held back is freed.  KEYS: stream, meta, readers   ARGV: reader
-- Returns how many readers remain.
redis.call('HDEL', KEYS[3], ARGV[1])
trim(KEYS[1], KEYS[2], KEYS[3])
return redis.call('HLEN', KEYS[3])
