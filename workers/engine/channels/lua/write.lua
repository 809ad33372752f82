-- Appends one block, at most once.  KEYS: stream, meta, readers, meta of the channel whose token counts (a part's whole)
-- ARGV: token, batch (id's first part), n (second part), events, payload, now in ms, the wave that the batch is of
-- Returns 1 when written, 0 when the stream has it already; an error where it must not be written.
local stream, meta, readers = KEYS[1], KEYS[2], KEYS[3]
local token, batch, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local id = ARGV[2] .. '-' .. ARGV[3]
local state = redis.call('HMGET', meta, 'capacity', 'last', 'last_fence', 'retain')
local of_stream = redis.call('HMGET', KEYS[4] or meta, 'fence', 'copied')
local fence = of_stream[1]

local function refuse(code, why)
  redis.call('HINCRBY', meta, 'rejected', 1)
  return redis.error_reply(code .. ' ' .. stream .. ' ' .. id .. ': ' .. why)
end

if not state[1] then return redis.error_reply('WEIRCLOSED ' .. stream .. ': no such channel is open') end
if token ~= tonumber(fence or 0) then
  return refuse('WEIRFENCED', 'token ' .. ARGV[1] .. ' was overtaken by ' .. (fence or 'none'))
end
local last = state[2] or '0-0'
if not less(last, id) then
  local last_batch = parts(last)
  -- Spark replays what it had not committed. A checkpoint keeps 100 batches, so nothing older can come back,
  -- and the writer that wrote the last batch can only repeat that one. Who goes on from a copy of the query's state
  -- repeats all behind the oldest copy (`copied`).
  local oldest = last_batch
  if token ~= tonumber(state[3] or 0) then oldest = math.min(last_batch - 100, tonumber(of_stream[2] or last_batch)) end
  if batch < oldest then
    return refuse('WEIRPOLLUTED', 'the stream is already at ' .. last .. '; another writer or a lost checkpoint')
  end
  local there = redis.call('XRANGE', stream, id, id)
  if #there == 1 then
    local events = events_of(there[1])
    if events ~= tonumber(ARGV[4]) then
      return refuse('WEIRDIFFERS', 'repeats a block of ' .. string.format('%.0f', events) .. ' events with ' .. ARGV[4])
    end
  end
  redis.call('HINCRBY', meta, 'rejected', 1)
  redis.call('HINCRBY', meta, 'duplicates', 1)
  return 0
end
-- Blocks of a batch are numbered without a gap: one that overtook another on its way is sent again after it.
local last_batch, last_n = parts(last)
if n ~= (batch == last_batch and last_n + 1 or 0) then
  return refuse('WEIRORDER', 'the stream is at ' .. last .. '; blocks before this one are missing')
end
-- Where the wave becomes another one, the channel is marked; marks behind which every reader is are forgotten.
-- Slots write them: marks that are too long are as if there were none. A reader has to be some 33,000 switches behind.
local most_bytes = 500000
local is_short = redis.call('HSTRLEN', meta, 'waves') <= most_bytes
local wave, marks = ARGV[7] or '0', is_short and redis.call('HGET', meta, 'waves') or ''
if (string.match(marks, ':(%d+)$') or '0') ~= wave then
  local can_be_read = redis.call('HLEN', readers) <= most_readers  -- else all marks are needed
  local needed = can_be_read and redis.call('HGET', meta, 'trimmed') or '0-0'
  for _, place in ipairs(can_be_read and redis.call('HVALS', readers) or {}) do
    if less(place, needed) then needed = place end
  end
  local oldest, kept = parts(needed), {}
  for mark in string.gmatch(marks, '[^,]+') do
    local from = string.match(mark, '^(%d+):%d+$')
    if from and tonumber(from) <= oldest then kept = {} end
    if from then kept[#kept + 1] = mark end
  end
  kept[#kept + 1] = ARGV[2] .. ':' .. wave
  redis.call('HSET', meta, 'waves', table.concat(kept, ','))
end
redis.call('XADD', stream, id, 'b', ARGV[5], 'n', ARGV[4], 't', ARGV[6])
redis.call('HSET', meta, 'last', id, 'last_fence', ARGV[1])
redis.call('HINCRBY', meta, 'bytes', #ARGV[5])
redis.call('HINCRBY', meta, 'events', ARGV[4])
if tonumber(state[4] or 0) > 0 then redis.call('HINCRBY', meta, 'held', ARGV[4]) end
if redis.call('HLEN', readers) == 0 then trim(stream, meta, readers) end
redis.call('PUBLISH', stream, id)
return 1
