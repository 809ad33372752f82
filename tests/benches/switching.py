"""`./weir bench switching`: what alternates that are off cost, how soon another one is on, and what the output notices.

- CPU of queries with three alternates against that of the same queries with the active one alone: at the same time,
  each kind in a slot of its own, and then the other way round.
- From when the site publishes a switch to the first event that the other alternate gets; fast, and in waves over two
  elements in two slots.
- The longest silence of the output in spans with a switch, and in as many without, in turn.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from scheduler.model.canonical import canonical_config
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from scheduler.model.settings_of_fragments import FragmentSettings
from scheduler.model.task_types import DYNAMIC
from scheduler.model.wave_elements import wave_elements
from workers.engine import desired_publishing, observed
from workers.engine.channels import keys
from workers.engine.noted_switches import noted_switches
from workers.engine.wave_publishing import publish_waves
from workers.library.registry import task_types

from . import results
from .arguments import positive
from .estate import NODE, RunningEstate, running

TRIGGER_MS = 500
SETTLE_S = 20.0
QUERIES = 3  # of each kind, for the CPU
SPAN_S = 5.0
WITHIN_S = 120.0
WAYS = {name: f"SELECT *, '{name}' AS {{made}} FROM input" for name in ("plain", "twice", "thrice")}


def made_by(task_id: str) -> str:
    """The column that a task adds; a name in a query has no hyphens."""
    return f"made_{task_id}".replace("-", "_")


def element(task_id: str, parent: str, *, switching: str = "fast") -> RunningTask:
    """A task with three alternates that are worth the less the later they come."""
    ways = [
        {"name": name, "type": "sql", "value": 3 - number, "config": {"query": query.format(made=made_by(task_id))}}
        for number, (name, query) in enumerate(WAYS.items())]
    config = canonical_config(task_types()[DYNAMIC], {"alternates": ways, "switching": switching})
    return RunningTask(task_id, DYNAMIC, config, (parent,))


def plain(task_id: str, parent: str) -> RunningTask:
    """The same with the first alternate alone."""
    query = WAYS["plain"].format(made=made_by(task_id))
    return RunningTask(task_id, "sql", canonical_config(task_types()["sql"], {"query": query}), (parent,))


def source(task_id: str, rate_per_s: float) -> RunningTask:
    config = canonical_config(task_types()["smart_meter"], {}) | {"rate_per_s": rate_per_s}
    return RunningTask(task_id, "smart_meter", config, ())


def out(task_id: str, parent: str, keep: int) -> RunningTask:
    return RunningTask(
        task_id, "output", canonical_config(task_types()["output"], {"name": task_id, "keep_events": keep}), (parent,))


def for_cpu(rate_per_s: float, *, slot: int) -> Estate:
    """Queries of both kinds: those with alternates in this slot, the others in the other one."""
    tasks, fragments = [], []
    for kind, home in (("d", slot), ("s", 1 - slot)):
        for number in range(QUERIES):
            name = f"{kind}{slot}{number}"
            work = (element if kind == "d" else plain)(f"{name}-work", f"{name}-source")
            line = [source(f"{name}-source", rate_per_s), work, out(f"{name}-out", work.id, 1_000)]
            tasks += line
            fragments.append(Fragment(f"{name}x1-0", tuple(task.id for task in line), f"{NODE}/{home}", len(line)))
    return _estate(tasks, fragments)


def for_switches(rate_per_s: float, switching: str) -> Estate:
    """Two elements in two slots."""
    first, second = f"{switching}-1", f"{switching}-2"
    tasks = [source(f"{switching}-source", rate_per_s), element(first, f"{switching}-source", switching=switching),
             element(second, first, switching=switching), out(f"{switching}-out", second, 10_000_000)]
    reader = f"{switching}b1-0"
    return _estate(tasks, [
        Fragment(f"{switching}a1-0", (tasks[0].id, first), f"{NODE}/0", 2, {first: (reader,)}),
        Fragment(reader, (second, tasks[3].id), f"{NODE}/1", 2)])


def _estate(tasks: Sequence[RunningTask], fragments: Sequence[Fragment]) -> Estate:
    return Estate(
        tasks={task.id: task for task in tasks}, fragments={fragment.id: fragment for fragment in fragments},
        slots=(Slot(NODE, 0), Slot(NODE, 1)))


def measure(*, rate_per_s: float, seconds: float, rounds: int, switches: int, seed: int) -> dict[str, Any]:
    """All of it, on one broker and agent.

    Parameters
    ----------
    rate_per_s : float
        Events/s of each source for the CPU; a tenth of it for switches.
    seconds, rounds : float, int
        How long CPU is measured at a time, and how often in either order.
    switches : int
        How many of each kind, fast and in waves.
    """
    chance = random.Random(seed)
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="weir-switching-") as folder, running(
            replace(for_cpu(rate_per_s, slot=0), generation=1), Path(folder), trigger_ms=TRIGGER_MS) as estate:
        measured["cpu"] = [pair for slot in (0, 1) for pair in _cpu_pairs(
            estate, for_cpu(rate_per_s, slot=slot), slot=slot, seconds=seconds, rounds=rounds)]
        for switching in ("fast", "wave"):
            measured[switching] = _switches(
                estate, for_switches(rate_per_s / 10, switching), switching, count=switches, chance=chance)
        _enact(estate, _estate([], []))
    return measured


def _enact(estate: RunningEstate, wanted: Estate) -> None:
    estate.enact(replace(wanted, generation=estate.estate.generation + 1))


def _cpu_pairs(
    estate: RunningEstate, wanted: Estate, *, slot: int, seconds: float, rounds: int
) -> list[tuple[float, float]]:
    """CPU seconds of the slot with alternates, and of the other one, round by round."""
    _enact(estate, wanted)
    estate.wait_running()
    time.sleep(SETTLE_S)
    pairs = []
    for _ in range(rounds):
        before = [_slot_cpu_s(estate, number) for number in (slot, 1 - slot)]
        time.sleep(seconds)
        after = [_slot_cpu_s(estate, number) for number in (slot, 1 - slot)]
        pairs.append((after[0] - before[0], after[1] - before[1]))
    return pairs


def _slot_cpu_s(estate: RunningEstate, slot: int) -> float:
    """CPU seconds of a slot's process and all that it started."""
    node = observed.read_reports(estate.client).node(NODE)
    process = psutil.Process(node.slots[str(slot)].pid)
    total = 0.0
    for child in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            total += times.user + times.system
    return total


def _switches(
    estate: RunningEstate, wanted: Estate, switching: str, *, count: int, chance: random.Random
) -> dict[str, Any]:
    """Milliseconds until a switch is in force in both elements, and silences of the output with one and without."""
    _enact(estate, wanted)
    tasks = [task.id for task in wanted.tasks.values() if task.type == DYNAMIC]
    channel = wanted.channel_of(f"{switching}-out")
    waits_ms, with_one, without = [], [], []
    on = "plain"
    _switch(estate, dict.fromkeys(tasks, on))
    estate.wait(lambda: _in_force(estate, tasks, on), what="first events", within_s=WITHIN_S)
    time.sleep(SETTLE_S)
    for _ in range(count):
        time.sleep(chance.random() * TRIGGER_MS / 1000)
        began = _now_ms(estate)
        time.sleep(SPAN_S)
        without.append(longest_silence_ms(_written(estate, channel, began), began, _now_ms(estate)))
        on = chance.choice([way for way in WAYS if way != on])
        began = _now_ms(estate)
        _switch(estate, dict.fromkeys(tasks, on))
        time.sleep(SPAN_S)
        estate.wait(lambda on=on: _in_force(estate, tasks, on), what="the switch", within_s=WITHIN_S)
        waits_ms.append(max(noted_switches(estate.client, task)[-1].at_ms for task in tasks) - began)
        end = began + round(SPAN_S * 1000)
        with_one.append(longest_silence_ms(_written(estate, channel, began), began, end))
    return {"waits_ms": waits_ms, "silent_with_ms": with_one, "silent_without_ms": without}


def _switch(estate: RunningEstate, on: Mapping[str, str]) -> None:
    """As the site does it: waves, and then what nodes should run."""
    places = estate.estate.places
    settings = {places[task][0]: FragmentSettings(alternates={task: way}) for task, way in on.items()}
    estate.estate = replace(estate.estate, generation=estate.estate.generation + 1).set_to(settings, 0)
    publish_waves(
        estate.client, wave_elements(estate.estate), generation=estate.estate.generation, revision=0)
    desired_publishing.publish(
        estate.client, desired_publishing.desired_of(estate.estate, NODE, task_types(), estate.trigger_ms))


def _in_force(estate: RunningEstate, tasks: Sequence[str], on: str) -> bool:
    sequences = [noted_switches(estate.client, task) for task in tasks]
    return all(switches and switches[-1].alternate == on for switches in sequences)


def _written(estate: RunningEstate, channel: str, since_ms: int) -> list[int]:
    """When the newest blocks of a channel were written."""
    entries = estate.client.xrevrange(keys.channel(channel), count=400)
    return sorted(written for _, fields in entries if (written := int(fields[b"t"])) >= since_ms)


def longest_silence_ms(written_ms: Sequence[int], begin_ms: int, end_ms: int) -> int:
    """The longest time within a span in which nothing was written."""
    times = [begin_ms, *(moment for moment in written_ms if begin_ms < moment < end_ms), end_ms]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


def _now_ms(estate: RunningEstate) -> int:
    seconds, microseconds = estate.client.time()
    return seconds * 1000 + microseconds // 1000


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-round(share * 1000) * len(ordered) // 1000) - 1)]


def rows(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table: CPU with alternates over that without, and of each way to switch its waits and silences."""
    shares = [100 * (with_three / alone - 1) for with_three, alone in measured["cpu"]]
    totals = [sum(pair[place] for pair in measured["cpu"]) for place in (0, 1)]
    table = [{"what": "CPU, three alternates over one alone (%)", "n": len(shares),
              "p50": round(100 * (totals[0] / totals[1] - 1), 1), "p99": round(max(shares), 1)}]
    for switching in ("fast", "wave"):
        way = measured[switching]
        differences = [one - other for one, other in zip(way["silent_with_ms"], way["silent_without_ms"], strict=True)]
        for what, values in (("published to in force (ms)", way["waits_ms"]),
                             ("longest silence with a switch (ms)", way["silent_with_ms"]),
                             ("longest silence without (ms)", way["silent_without_ms"])):
            table.append({"what": f"{switching}: {what}", "n": len(values),
                          "p50": round(statistics.median(values), 1), "p99": round(quantile(values, 0.99), 1)})
        table.append({"what": f"{switching}: silence more than without, paired (ms)", "n": len(differences),
                      "p50": round(statistics.median(differences), 1), "p99": round(quantile(differences, 0.99), 1)})
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description="Measure what alternates cost, and how soon they are switched.")
    parser.add_argument("--rate", type=positive, default=1_000.0, help="events/s of each source")
    parser.add_argument("--seconds", type=positive, default=40.0, help="how long CPU is measured at a time")
    parser.add_argument("--rounds", type=int, default=3, help="how often, in either order")
    parser.add_argument("--switches", type=int, default=40, help="of each kind")
    parser.add_argument("--seed", type=int, default=38)
    parser.add_argument("--json", type=Path, default=Path("switching.json"))
    given = parser.parse_args(arguments)
    load_before = os.getloadavg()[0]
    measured = measure(
        rate_per_s=given.rate, seconds=given.seconds, rounds=given.rounds, switches=given.switches, seed=given.seed)
    print(results.table(rows(measured)))
    results.write(given.json, {
        "bench": "switching", "machine": results.machine(), "load": [load_before, os.getloadavg()[0]],
        "trigger_ms": TRIGGER_MS, **measured})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
