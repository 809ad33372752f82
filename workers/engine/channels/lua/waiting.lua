-- How many events of a channel wait for a reader.  KEYS: stream, meta, readers   ARGV: reader, blocks to look at
-- Up to so many blocks are counted; of more, by the newest ones and by how far the numbers of blocks are apart.
-- Returns -1 where it has no place there.
local stream, meta, readers = KEYS[1], KEYS[2], KEYS[3]
local place, most = redis.call('HGET', readers, ARGV[1]), tonumber(ARGV[2])
if not place then return -1 end
local newest = redis.call('XREVRANGE', stream, '+', '(' .. place, 'COUNT', most)
local events = 0
for _, entry in ipairs(newest) do events = events + events_of(entry) end
if #newest < most then return events end
local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
local begin, reached = parts(first[1]), parts(newest[1][1])
local after = math.max(parts(place), begin - 1)
local share = (reached - after) / math.max(1, reached - begin + 1)
local blocks = math.max(most, redis.call('XLEN', stream) * math.min(1, share))
return math.floor(events / most * blocks + 0.5)
