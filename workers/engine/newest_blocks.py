"""The newest blocks of channels and taps, for a process of the site that shows them: no more bytes than it may take.

A block may have 256 MB, and whoever writes channels says how many there are. So the broker counts before it answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import redis

from scheduler.model.bounds import MESSAGE_BYTES
from workers.engine.channels.scripts import ALONE

MOST_BYTES = MESSAGE_BYTES.most  # of all that somebody looks at; of more no block is decoded either
# KEYS: streams of blocks, or lists of them, the newest first   ARGV: most bytes of all, most blocks of each
# Each may have an even part of the bytes; its newest block may have what is left. Of what is neither there is nothing.
_NEWEST = ALONE + """
local left, part, most = tonumber(ARGV[1]), tonumber(ARGV[1]) / #KEYS, tonumber(ARGV[2])

local function next_block(key, is_stream, before, number)
  if not is_stream then return redis.call('LINDEX', key, number - 1) end
  local entry = redis.call('XREVRANGE', key, before, '-', 'COUNT', 1)[1]
  if not entry then return false end
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'b' then return entry[2][i + 1], '(' .. entry[1] end
  end
  return '', '(' .. entry[1]
end

local function newest(key)
  local kind, blocks, taken, before = redis.call('TYPE', key).ok, {}, 0, '+'
  if kind ~= 'stream' and kind ~= 'list' then return blocks end
  for number = 1, most do
    local block
    block, before = next_block(key, kind == 'stream', before, number)
    if not block or #block > left or (number > 1 and taken + #block > part) then return blocks end
    blocks[number], taken, left = block, taken + #block, left - #block
  end
  return blocks
end

local answers = {}
for i, key in ipairs(KEYS) do answers[i] = newest(key) end
return answers
"""


def newest_blocks(broker: redis.Redis, names: Sequence[str], *, count: int) -> list[list[bytes]]:
    """The newest blocks under each of some keys, the newest first: so many of each, and ``MOST_BYTES`` of all, at most.

    Parameters
    ----------
    names : sequence of str
        Keys of channels, or of lists of blocks.

    Raises
    ------
    redis.RedisError
        The broker is away.
    """
    return broker.eval(_NEWEST, len(names), *names, MOST_BYTES, count) if names and count > 0 else [[] for _ in names]
