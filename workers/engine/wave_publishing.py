"""Waves: which alternates tasks that switch in waves have, as the estate wants it, written to the broker at once.

What differs from what stands there begins a new wave: a number that the sources of these tasks give to what comes from
their next batch on (``Waves.java``). Since all that a wave changes is there before any event of it, each event meets
the alternates of one wave in all tasks, wherever these run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import redis

from scheduler.model.wave_elements import WaveElement
from workers.engine.channels import keys
from workers.engine.channels.scripts import ALONE

KEPT = 500  # switches of a task: more are known of none (``Waves.KEPT``)
MOST_BYTES = 1_000 * KEPT  # of a task's switches

# KEYS: counter.  ARGV: generation, revision, kept, [{switches, on, sources}, …], where switches and sources are keys;
# most bytes of a task's switches
# Slots may write what stands of their switches: what is none, or is too long, is as if it were not there, and stops no
# other task.
# An older estate changes nothing, whichever of two publishers comes last. Returns the wave that begins, 0 for none.
_PUBLISH = ALONE + """
local stands = redis.call('HMGET', KEYS[1], 'generation', 'revision', 'keys')
local generation, revision = tonumber(ARGV[1]), tonumber(ARGV[2])
local newer = tonumber(stands[1] or -1)
if newer > generation or (newer == generation and tonumber(stands[2] or 0) > revision) then return 0 end
local wanted, names, wave = {}, {}, 0
local function want(key)
  if not wanted[key] then names[#names + 1] = key end
  wanted[key] = true
end
local function standing(key)
  local known, bytes = {}, redis.pcall('STRLEN', key)
  if type(bytes) ~= 'number' or bytes > tonumber(ARGV[5]) then return known end
  local text = redis.call('GET', key)
  local is_read, switches = pcall(cjson.decode, text or '[]')
  if not is_read or type(switches) ~= 'table' then return known end
  for at = math.max(1, #switches - tonumber(ARGV[3]) + 1), #switches do
    local each = switches[at]
    if type(each) == 'table' and type(each[1]) == 'number' and type(each[2]) == 'string'
        and math.abs(each[1]) < 2^53 then -- an infinite one cannot be written again
      known[#known + 1] = {each[1], each[2]}
    end
  end
  return known
end
for _, element in ipairs(cjson.decode(ARGV[4])) do
  want(element.switches)
  local switches = standing(element.switches)
  local is_other = #switches == 0 or switches[#switches][2] ~= element.on
  if is_other then
    if wave == 0 then wave = redis.call('HINCRBY', KEYS[1], 'number', 1) end
    switches[#switches + 1] = {wave, element.on}
    while #switches > tonumber(ARGV[3]) do table.remove(switches, 1) end
    redis.call('SET', element.switches, cjson.encode(switches))
  end
  for _, source in ipairs(element.sources) do
    want(source)
    if is_other then redis.call('SET', source, wave) end
  end
end
for _, key in ipairs(cjson.decode(stands[3] or '[]')) do
  if not wanted[key] then redis.call('DEL', key) end
end
local stated = #names > 0 and cjson.encode(names) or '[]'
redis.call('HSET', KEYS[1], 'generation', ARGV[1], 'revision', ARGV[2], 'keys', stated)
return wave
"""


def publish_waves(
    broker: redis.Redis, elements: Iterable[WaveElement], *, generation: int, revision: int
) -> int:
    """Let a new wave begin where other alternates are to be on than in the newest; its number, 0 where none begins.

    Parameters
    ----------
    elements : iterable of WaveElement
        All of the estate. Those that are not among them are forgotten.
    """
    waves = [
        {"switches": keys.waves(element.task), "on": element.on,
         "sources": [keys.wave(source) for source in element.sources]}
        for element in elements]
    return int(broker.eval(
        _PUBLISH, 1, keys.wave_counter(), generation, revision, KEPT, json.dumps(waves), MOST_BYTES))
