-- Shared by every script that may free blocks; prepended to each of them.
-- A block may go when every reader has committed it and it is not among the newest `retain`.

local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

local function less(a, b)
  local ams, aseq = parts(a)
  local bms, bseq = parts(b)
  return ams < bms or (ams == bms and aseq < bseq)
end

-- The newest entry that nobody needs any more: the slowest reader's, or the very last where nobody reads.
local function released(meta, readers)
  local slowest = redis.call('HGET', meta, 'last') or '0-0'
  for _, position in ipairs(redis.call('HVALS', readers)) do
    if less(position, slowest) then slowest = position end
  end
  return slowest
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
  elseif before > retain then
    for _, entry in ipairs(redis.call('XRANGE', stream, '-', bound, 'COUNT', before - retain)) do
      redis.call('XDEL', stream, entry[1])
      redis.call('HSET', meta, 'trimmed', entry[1])
      freed = freed + 1
    end
  end
  if before > limit and before - freed <= limit then redis.call('PUBLISH', stream .. ':room', '') end
  return before - freed
end
