-- Changes how a stream is divided among the bundles of one reader.  KEYS: valve
-- ARGV: what its changes' fields begin with, weights by part (JSON, '{}' for no longer), first batch or ''
-- The change gets its boundary from the valve; what was decided before it stays until that is passed. A change that no
-- batch has been decided by yet is overwritten, and so are all where a first batch is given. Returns 1 where it changes.
local valve, prefix, weights, from = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
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
if (state[1] or '{}') == weights and (from == '' or #changes == 0 or (#changes == 1 and state[2] == from)) then return 0 end
if from ~= '' then
  for _, n in ipairs(changes) do forget(n) end
elseif not newest then
  add('{}', '0')
elseif not state[2] then
  forget(newest)
end
add(weights, from)
return 1
