-- Registers one reader; one that is there keeps its place.  KEYS: stream, meta, readers
-- ARGV: reader, where (`now`; `oldest`; an entry id, after which it begins; or ms since the epoch), predecessor...
-- A reader that goes on with another's work waits while that one has a place: it takes over exactly there, by itself.
-- One whose place here has ended for good (`limit:…`) gets none again.
-- Refused (`WEIRREADERS`) where the channel has as many readers as one may.
-- Returns its place ('' while it waits), and when the oldest block kept was written where older ones were asked for.
local stream, meta, readers = KEYS[1], KEYS[2], KEYS[3]
local reader, where = ARGV[1], ARGV[2]
local place = redis.call('HGET', readers, reader)
if place then return {place, ''} end
if redis.call('HEXISTS', meta, 'limit:' .. reader) == 1 then return {'', ''} end
for i = 3, #ARGV do
  if redis.call('HEXISTS', readers, ARGV[i]) == 1 then return {'', ''} end
end

local refusal = require_room(stream, readers, 1)
if refusal then return refusal end

local state = redis.call('HMGET', meta, 'last', 'trimmed')
local last, trimmed = state[1] or '0-0', state[2] or '0-0'

local function written(entry)
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 't' then return entry[2][i + 1] end
  end
end

local function before(time)
  local found = trimmed
  while true do
    local entries = redis.call('XRANGE', stream, '(' .. found, '+', 'COUNT', 16)
    for _, entry in ipairs(entries) do
      if tonumber(written(entry)) >= time then return found end
      found = entry[1]
    end
    if #entries < 16 then return found end
  end
end

local missed = ''
if where == 'oldest' then
  place = trimmed
elseif where == 'now' then
  place = last
elseif string.find(where, '-') then
  place = where
else
  place = before(tonumber(where))
  local oldest = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  if place == trimmed and trimmed ~= '0-0' then missed = oldest and written(oldest) or 'all' end
end
redis.call('HSET', readers, reader, place)
return {place, missed}
