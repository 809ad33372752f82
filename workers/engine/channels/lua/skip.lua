-- A reader gives up what it has not read, but for the newest blocks, where its node asked for that (`lose:<reader>`).
-- KEYS: stream, meta, readers
-- ARGV: reader; the entry of its checkpoint, and the one that it reads on from; up to which entry its node has blocks on
-- disk (that one where it has none), how many those are, and their events
-- Called by the reader itself between two batches: what it has planned is read as planned. The step (`skip:<reader>`) and
-- the counts are written together, so that whatever dies, each block is either read or counted, once. Returns where the
-- reader goes on ('' where it stays).
local stream, meta, readers = KEYS[1], KEYS[2], KEYS[3]
local reader, entry, after, reach = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local state = redis.call('HMGET', meta, 'lose:' .. reader, 'limit:' .. reader, 'trimmed', 'spill:' .. reader, 'capacity')
local keep, trimmed, mark = tonumber(state[1] or nil), state[3] or '0-0', state[4]
if not keep or not state[5] or redis.call('HEXISTS', readers, reader) == 0 then return '' end
if less(reach, trimmed) then return '' end -- more was taken to disk meanwhile: it asks again
redis.call('HDEL', meta, 'lose:' .. reader)
if state[2] then return '' end -- its place ends here: it reads up to there

local ids, events, from = {}, {}, reach
while true do
  local entries = redis.call('XRANGE', stream, '(' .. from, '+', 'COUNT', 16)
  for _, block in ipairs(entries) do
    ids[#ids + 1], events[#events + 1], from = block[1], events_of(block), block[1]
  end
  if #entries < 16 then break end
end
local to, blocks, lost = reach, tonumber(ARGV[5]), tonumber(ARGV[6])
for i = 1, #ids - keep do to, blocks, lost = ids[i], blocks + 1, lost + events[i] end
if not less(after, to) then return '' end
redis.call('HSET', meta, 'skip:' .. reader, entry .. ' ' .. to)
redis.call('HINCRBY', meta, 'lost_blocks:' .. reader, string.format('%.0f', blocks))
redis.call('HINCRBY', meta, 'lost_events:' .. reader, string.format('%.0f', lost))
if not mark or less(mark, to) then redis.call('HSET', meta, 'spill:' .. reader, to) end
trim(stream, meta, readers)
return to
