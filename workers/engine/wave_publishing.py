"""Waves: which alternates tasks that switch in waves have, as the estate wants it, written to the broker at once.

What differs from what stands there begins a new wave: a number that the sources of these tasks give to what comes from
their next batch on (``Waves.java``). Since all that a wave changes is there before any event of it, each event meets the
alternates of one wave in all tasks, wherever these run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import redis

from scheduler.model.alternates import in_waves, on_in
from scheduler.model.estate import Estate
from scheduler.model.fragment import RunningTask
from scheduler.model.settings_of_fragments import USUAL
from workers.engine.channels import keys

KEPT = 500  # switches of a task: more are known of none (``Waves.KEPT``)

# KEYS: switches by task, newest wave by source, counter.  ARGV: generation, revision, kept, [{task, on, sources}, …]
# An older estate changes nothing, whichever of two publishers comes last. Returns the wave that begins, 0 for none.
_PUBLISH = """
local stands = redis.call('HMGET', KEYS[3], 'generation', 'revision')
local generation, revision = tonumber(ARGV[1]), tonumber(ARGV[2])
local newer = tonumber(stands[1] or -1)
if newer > generation or (newer == generation and tonumber(stands[2] or 0) > revision) then return 0 end
redis.call('HSET', KEYS[3], 'generation', ARGV[1], 'revision', ARGV[2])
local wanted, sources, wave = {}, {}, 0
for _, element in ipairs(cjson.decode(ARGV[4])) do
  wanted[element.task] = true
  local switches = cjson.decode(redis.call('HGET', KEYS[1], element.task) or '[]')
  if #switches == 0 or switches[#switches][2] ~= element.on then
    if wave == 0 then wave = redis.call('HINCRBY', KEYS[3], 'number', 1) end
    switches[#switches + 1] = {wave, element.on}
    while #switches > tonumber(ARGV[3]) do table.remove(switches, 1) end
    redis.call('HSET', KEYS[1], element.task, cjson.encode(switches))
    for _, source in ipairs(element.sources) do redis.call('HSET', KEYS[2], source, wave) end
  end
  for _, source in ipairs(element.sources) do sources[source] = true end
end
for _, task in ipairs(redis.call('HKEYS', KEYS[1])) do
  if not wanted[task] then redis.call('HDEL', KEYS[1], task) end
end
for _, source in ipairs(redis.call('HKEYS', KEYS[2])) do
  if not sources[source] then redis.call('HDEL', KEYS[2], source) end
end
return wave
"""


@dataclass(frozen=True, slots=True)
class WaveElement:
    """A running task that switches in waves, the alternate that is to be on, and the sources whose events reach it."""

    task: str
    on: str
    sources: tuple[str, ...]


def wave_elements(estate: Estate) -> list[WaveElement]:
    """The tasks of an estate that switch in waves."""
    return [
        WaveElement(task.id, _on(estate, task), _sources(estate.tasks, task))
        for task in estate.tasks.values() if in_waves(task.type, task.config) and task.id in estate.places]


def publish_waves(
    broker: redis.Redis, elements: Iterable[WaveElement], *, generation: int, revision: int
) -> int:
    """Let a new wave begin where other alternates are to be on than in the newest; its number, 0 where none begins.

    Parameters
    ----------
    elements : iterable of WaveElement
        All of the estate. Those that are not among them are forgotten.
    generation, revision : int
        Of that estate.
    """
    wanted = [{"task": each.task, "on": each.on, "sources": each.sources} for each in elements]
    return int(broker.eval(
        _PUBLISH, 3, keys.waves(), keys.wave_sources(), keys.wave_counter(), generation, revision, KEPT,
        json.dumps(wanted)))


def _on(estate: Estate, task: RunningTask) -> str:
    settings = estate.settings.get(estate.places[task.id][0], USUAL)
    return on_in(task.type, task.config, settings.alternates.get(task.id))


def _sources(tasks: Mapping[str, RunningTask], task: RunningTask) -> tuple[str, ...]:
    seen, waiting = {task.id}, [task.id]
    while waiting:
        fresh = set(tasks[waiting.pop()].parents) - seen
        seen |= fresh
        waiting += fresh
    return tuple(sorted(name for name in seen if not tasks[name].parents))
