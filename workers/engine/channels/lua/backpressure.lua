-- What may keep a source from planning its next batch.  KEYS: valve, tap
-- ARGV: what the keys of streams begin with, the key that is there while the broker is nearly full ('' for who reads
-- channels), the channels that its query writes...
-- Returns 1 where it is paused, else 0; and the first channel that is full of those, and of the parts that get events
-- by what was asked for last ('' for none; 'broker' where the broker is nearly full); and how many ms apart its batches begin at least. A channel that is not
-- open cannot be full. Then, for a batch that is open: the newest batch from which a change is in force (2^52 where one
-- has no first batch yet), and 1 where somebody looks at the streams.
local valve, prefix = KEYS[1], ARGV[1]

local function is_full(channel)
  local limits = redis.call('HMGET', prefix .. channel .. ':meta', 'capacity', 'retain')
  return limits[1] and redis.call('XLEN', prefix .. channel) > tonumber(limits[1]) + tonumber(limits[2] or 0)
end

-- The parts that get events, by name: those with a token of a ring, or with a weight above zero.
local function served(how)
  local parts = {}
  for _, part in pairs(how.tokens or {}) do parts[#parts + 1] = part end
  for part, weight in pairs(how.tokens and {} or how) do
    if weight > 0 then parts[#parts + 1] = part end
  end
  table.sort(parts)
  return parts
end

local paused, pace, newest, boundary = 0, 0, {}, -1
local state = redis.call('HGETALL', valve)
local field = {}
for i = 1, #state, 2 do field[state[i]] = state[i + 1] end
for i = 1, #state, 2 do
  local route, number = string.match(state[i], '^(%d+:route:[^:]+):(%d+)$')
  if state[i] == 'paused' then paused = 1 end
  if string.sub(state[i], -5) == ':from' then boundary = math.max(boundary, tonumber(state[i + 1])) end
  local at = string.match(state[i], '^(%d+):outlet$')
  local first = at and state[i + 1] == 'open' and at .. ':from' or (route or state[i] == 'tail') and state[i] .. ':from'
  if first and not field[first] then boundary = 4503599627370496 end
  if state[i] == 'pace' then pace = tonumber(state[i + 1]) end
  if route and (not newest[route] or newest[route].number < tonumber(number)) then
    newest[route] = {number = tonumber(number), how = state[i + 1]}
  end
end

local tapped = KEYS[2] and redis.call('EXISTS', KEYS[2]) or 0
if ARGV[2] ~= '' and redis.call('EXISTS', ARGV[2]) == 1 then return {paused, 'broker', pace, boundary, tapped} end
for i = 3, #ARGV do
  if is_full(ARGV[i]) then return {paused, ARGV[i], pace, boundary, tapped} end
end
for _, change in pairs(newest) do
  for _, part in ipairs(served(cjson.decode(change.how))) do
    if is_full(part) then return {paused, part, pace, boundary, tapped} end
  end
end
return {paused, '', pace, boundary, tapped}
