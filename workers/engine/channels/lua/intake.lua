-- Appends what a live source gave: a block of events, what could not be read, and the position after both, or nothing.
-- KEYS: stream, meta, readers, state, dead letters, idempotency keys, answers
-- ARGV: token ('' for whoever may push), number of the first event, events, payload, now in ms, position (JSON, '' as it
--       was), idempotency key or '', most dead letters kept, how many there are, most bytes that should wait in the
--       channel, digest of what came under the key, its answer (JSON, '' where it is refused and keeps no key), then for
--       each of the newest dead letters: reason, place, sample
-- Returns the blocks that are there then; where the idempotency key was taken before, its answer. Who pushes is refused
-- where the key was for something else (`WEIRUSED`), the channel is full, or nobody reads; and where another pushed
-- first (`WEIRMOVED`): the numbers must be taken anew.
local stream, meta, readers, state, dead, posted, answers = unpack(KEYS)
local token, first, events, now, key = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[5], ARGV[7]
local digest, answer = ARGV[11], ARGV[12]
local channel = redis.call('HMGET', meta, 'capacity', 'last', 'fence')

local function refuse(code, why) return redis.error_reply(code .. ' ' .. stream .. ': ' .. why) end

if not channel[1] then return refuse('WEIRCLOSED', 'no such channel is open') end
if token ~= '' and token ~= (channel[3] or '0') then
  return refuse('WEIRFENCED', 'token ' .. token .. ' was overtaken by ' .. (channel[3] or 'none'))
end
if key ~= '' and redis.call('ZSCORE', posted, key) then
  local before = redis.call('HGET', answers, key)
  if not before then return '' end  -- an earlier version took it, and kept neither
  if before:sub(1, #digest) ~= digest then return refuse('WEIRUSED', 'the key was for something else') end
  return before:sub(#digest + 1)
end
if token == '' then
  if redis.call('HLEN', readers) == 0 then return refuse('WEIRPAUSED', 'nobody reads it') end
  local full = why_full(stream, meta, readers, tonumber(ARGV[10]))
  if full ~= '' then return refuse('WEIRFULL', full) end
end
local seq = tonumber(redis.call('HGET', state, 'seq') or 0)
if seq ~= first then return refuse('WEIRMOVED', 'the next number is ' .. string.format('%.0f', seq)) end

if events > 0 then
  local id = string.format('%.0f', parts(channel[2] or '0-0') + 1) .. '-0'
  redis.call('XADD', stream, id, 'b', ARGV[4], 'n', ARGV[3], 't', now)
  redis.call('HSET', meta, 'last', id, 'last_fence', channel[3] or '0')
  redis.call('HINCRBY', meta, 'bytes', #ARGV[4])
  -- The usual size of a block of late: with how many there are, what the channel holds.
  local usual = tonumber(redis.call('HGET', meta, 'block') or #ARGV[4])
  redis.call('HSET', meta, 'block', string.format('%.0f', usual + (#ARGV[4] - usual) / 8))
  redis.call('HSET', state, 'seq', string.format('%.0f', seq + events), 'at', now)
  if redis.call('HLEN', readers) == 0 then trim(stream, meta, readers) end
  redis.call('PUBLISH', stream, id)
end
if ARGV[6] ~= '' then redis.call('HSET', state, 'position', ARGV[6]) end
if ARGV[9] ~= '0' then redis.call('HINCRBY', state, 'dead', ARGV[9]) end
for i = 13, #ARGV, 3 do
  redis.call('XADD', dead, 'MAXLEN', ARGV[8], '*', 'reason', ARGV[i], 'place', ARGV[i + 1], 'sample', ARGV[i + 2],
    't', now)
end
if key ~= '' and answer ~= '' then
  redis.call('ZADD', posted, now, key)
  redis.call('HSET', answers, key, digest .. answer)
  local day_ago = string.format('%.0f', tonumber(now) - 86400000)
  for _, over in ipairs({redis.call('ZRANGEBYSCORE', posted, '-inf', day_ago, 'LIMIT', 0, 1000),
                         redis.call('ZRANGE', posted, 0, -100001)}) do
    if #over > 0 then
      redis.call('ZREM', posted, unpack(over))
      redis.call('HDEL', answers, unpack(over))
    end
  end
end
return redis.call('XLEN', stream)
