-- Shared by every script that may free blocks; prepended to each of them.
-- A block may go when every reader has committed it and the newest `retain` events are held without it.

-- Readers of a channel. Of those of a hash with more nothing is read: slots write these hashes, and Lua takes some 8,000
-- values at a time.
local most_readers = 4000

local function require_room(stream, readers, new)
  if redis.call('HLEN', readers) + new <= most_readers then return nil end
  return redis.error_reply('WEIRREADERS ' .. stream .. ': it has ' .. redis.call('HLEN', readers) .. ' of '
    .. most_readers .. ' readers')
end

local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

local function less(a, b)
  local ams, aseq = parts(a)
  local bms, bseq = parts(b)
  return ams < bms or (ams == bms and aseq < bseq)
end

local function events_of(entry)
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'n' then return tonumber(entry[2][i + 1]) end
  end
  return 0
end

-- The slowest reader's place; nil where nobody reads. A reader needs nothing here of what its node has on disk for it
-- (`spill:<reader>`). Readers whose names end with `without` do not count.
local function slowest_of(meta, readers, without)
  local places = redis.call('HGETALL', readers)
  if #places == 0 then return nil end
  local marks = {}
  for i = 1, #places, 2 do marks[#marks + 1] = 'spill:' .. places[i] end
  local spilled, slowest = redis.call('HMGET', meta, unpack(marks)), nil
  for i = 2, #places, 2 do
    local place, mark = places[i], spilled[i / 2]
    if not without or string.sub(places[i - 1], -#without) ~= without then
      if mark and less(place, mark) then place = mark end
      if not slowest or less(place, slowest) then slowest = place end
    end
  end
  return slowest
end

-- The newest entry that nobody needs here any more: the slowest reader's, or the very last where nobody reads. With more
-- readers than there can be all is needed.
local function released(meta, readers)
  if redis.call('HLEN', readers) > most_readers then return '0-0' end
  local last = redis.call('HGET', meta, 'last') or '0-0'
  local slowest = slowest_of(meta, readers)
  return slowest and less(slowest, last) and slowest or last
end

-- The reason why a live source's channel takes no more, '' where it does: too many blocks wait there for a reader, or
-- too many bytes by the usual size of blocks (`block`). Those that copies of a reader's state keep take no room, as
-- `ChannelInfo.filling` has it.
local function why_full(stream, meta, readers, most_bytes)
  if redis.call('EXISTS', 'weir:crowded') == 1 then return 'the broker is nearly full' end
  local settings = redis.call('HMGET', meta, 'capacity', 'block', 'last')
  local blocks = redis.call('XLEN', stream)
  local slowest = redis.call('HLEN', readers) <= most_readers and slowest_of(meta, readers, '~copies')
  if slowest then blocks = math.min(blocks, math.max(0, parts(settings[3] or '0-0') - parts(slowest))) end
  local is_full = blocks > tonumber(settings[1] or 0) or blocks * tonumber(settings[2] or 0) > most_bytes
  return is_full and 'it is full' or ''
end

local function trim(stream, meta, readers)
  local before = redis.call('XLEN', stream)
  if before == 0 then return 0 end
  local settings = redis.call('HMGET', meta, 'retain', 'capacity')
  local retain = tonumber(settings[1]) or 0
  local limit = (tonumber(settings[2]) or 0) + retain
  local bound = released(meta, readers)
  if bound == '0-0' then return before end
  local freed = 0
  if retain == 0 then
    local ms, seq = parts(bound)
    freed = redis.call('XTRIM', stream, 'MINID', '=', string.format('%.0f-%.0f', ms, seq + 1))
    if freed > 0 then redis.call('HSET', meta, 'trimmed', bound) end
  else
    local held = tonumber(redis.call('HGET', meta, 'held')) or 0
    while held > retain do
      local entry = redis.call('XRANGE', stream, '-', bound, 'COUNT', 1)[1]
      local left = entry and held - events_of(entry)
      if not entry or left < retain then break end
      redis.call('XDEL', stream, entry[1])
      redis.call('HSET', meta, 'trimmed', entry[1], 'held', left)
      held, freed = left, freed + 1
    end
  end
  if before > limit and before - freed <= limit then redis.call('PUBLISH', stream .. ':room', '') end
  return before - freed
end
