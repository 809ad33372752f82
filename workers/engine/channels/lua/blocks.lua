-- Blocks that follow an entry, the oldest first: no more bytes of them than whoever reads has room for, but one at least.
-- KEYS: stream   ARGV: entry, most blocks, most bytes   Returns entries, as XRANGE does.
local blocks, bytes, after = {}, 0, '(' .. ARGV[1]
for i = 1, tonumber(ARGV[2]) do
  local entry = redis.call('XRANGE', KEYS[1], after, '+', 'COUNT', 1)[1]
  if not entry then break end
  for j = 2, #entry[2], 2 do bytes = bytes + #entry[2][j] end
  if i > 1 and bytes > tonumber(ARGV[3]) then break end
  blocks[i], after = entry, '(' .. entry[1]
end
return blocks
