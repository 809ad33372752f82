-- What the next batch of a reader takes, without sending any payload.  KEYS: stream, meta; of each channel in turn
-- ARGV: reader, at most so many blocks, at most so many events (but one block always), after which entry in each
-- channel... Nothing is taken beyond the reader's limit in a channel.
-- Of all channels those blocks are taken that were written first. Returns for each channel the last entry that is taken
-- ('' for none), what was freed already, and the channel's last entry.
local reader, most, channels = ARGV[1], tonumber(ARGV[2]), #KEYS / 2

local function described(entry)
  local block = {id = entry[1], events = 0, written = 0}
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'n' then block.events = tonumber(entry[2][i + 1]) end
    if entry[2][i] == 't' then block.written = tonumber(entry[2][i + 1]) end
  end
  return block
end

local found, taken, ends = {}, {}, {}
for c = 1, channels do
  found[c], taken[c] = {}, 0
  local after, up_to = '(' .. ARGV[3 + c], redis.call('HGET', KEYS[2 * c], 'limit:' .. reader) or '+'
  for i, entry in ipairs(redis.call('XRANGE', KEYS[2 * c - 1], after, up_to, 'COUNT', math.ceil(most / channels))) do
    found[c][i] = described(entry)
  end
end

local rows = 0
for blocks = 1, most do
  local first
  for c = 1, channels do
    local block = found[c][taken[c] + 1]
    if block and (not first or block.written < found[first][taken[first] + 1].written) then first = c end
  end
  if not first then break end
  rows = rows + found[first][taken[first] + 1].events
  if rows > tonumber(ARGV[3]) and blocks > 1 then break end
  taken[first] = taken[first] + 1
end

for c = 1, channels do
  local state = redis.call('HMGET', KEYS[2 * c], 'trimmed', 'last', 'limit:' .. reader)
  local last = found[c][taken[c]]
  -- Whoever has come to its limit misses nothing of what is freed beyond it.
  local trimmed = state[3] ~= ARGV[3 + c] and state[1] or '0-0'
  for _, part in ipairs({last and last.id or '', trimmed, state[2] or '0-0'}) do ends[#ends + 1] = part end
end
return ends
