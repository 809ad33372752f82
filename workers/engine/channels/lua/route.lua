-- Changes how a stream is divided among the bundles of one reader.
-- KEYS: valve; where a reader of the whole stream becomes one of parts, the whole channel's meta and readers
-- ARGV: what its changes' fields begin with, how it is divided (JSON, '{}' for no longer), first batch or ''; that reader
-- The change gets its boundary from the valve; what was decided before it stays until that is passed. A change that no
-- batch has been decided by yet is overwritten, and so are all where a first batch is given. Returns 1 where it changes.
local valve, prefix, how, from = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

-- Its place in the whole stream ends with what is there now: the writer is at rest, and from the first batch on it
-- writes to the parts. Both or none: else events would be read twice, or never.
if KEYS[2] then
  local meta, readers, reader = KEYS[2], KEYS[3], ARGV[4]
  local place = redis.call('HGET', readers, reader)
  if place and redis.call('HEXISTS', meta, 'limit:' .. reader) == 0 then
    local last = redis.call('HGET', meta, 'last') or '0-0'
    redis.call('HSET', meta, 'limit:' .. reader, last)
    if place == last then redis.call('HDEL', readers, reader) end
  end
end

local changes = {}
for _, field in ipairs(redis.call('HKEYS', valve)) do
  local rest = string.sub(field, 1, #prefix) == prefix and string.sub(field, #prefix + 1)
  if rest and string.match(rest, '^%d+$') then changes[#changes + 1] = tonumber(rest) end
end
table.sort(changes)

local function field(n) return prefix .. string.format('%.0f', n) end
local function add(text, first)
  local change = field(redis.call('HINCRBY', valve, 'routes', 1))
  redis.call('HSET', valve, change, text)
  if first ~= '' then redis.call('HSET', valve, change .. ':from', first) end
end
local function forget(n) redis.call('HDEL', valve, field(n), field(n) .. ':from') end

local newest = changes[#changes]
local state = newest and redis.call('HMGET', valve, field(newest), field(newest) .. ':from') or {}
if (state[1] or '{}') == how and (from == '' or #changes == 0 or (#changes == 1 and state[2] == from)) then return 0 end
if from ~= '' then
  for _, n in ipairs(changes) do forget(n) end
elseif not newest then
  add('{}', '0')
elseif not state[2] then
  forget(newest)
end
add(how, from)
return 1
