"""Dataflows with state by key, for the state that later versions open, and what their files must hold.

    python -m tests.launcher.keyed_estate   (with WEIR_DATA_DIR and REDIS_URL of a system that runs)

All of them read one stream, which is written as well: what each of them wrote follows from that. ``summed`` wants the
package of ``tests/library/package.py``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from .carried_estate import django_estate, document, sink

BY = ["sensor_id", "obs"]
WINDOW_MS, WITHIN_MS, BLOCK = 10_000, 7_000, 12
TASKS = {
    "windows": {"type": "window", "config": {
        "size": WINDOW_MS // 1000, "by": BY, "aggregates": ["n=count(*)", "top=max(value)"]}},
    "blocks": {"type": "block_average", "config": {"window": BLOCK}},
    "once": {"type": "deduplicate", "config": {"by": BY, "within": WITHIN_MS // 1000}},
    "pairs": {"type": "join", "config": {
        "on": ["sensor_id"], "left": "obs = 'temperature'", "right": "obs = 'humidity'", "left_columns": ["warm=value"],
        "right_columns": ["wet=value"], "before": 0.1, "after": 0.1}},
    "summed": {"type": "python_by_key", "config": {
        "function": "sensors.checks:summed", "version": "1.2", "columns": ["sum:double"], "by": BY,
        "reads": ["value"]}},
}
Event = Mapping[str, Any]


def documents() -> Iterator[str]:
    """The stream itself, written, and each task over it."""
    yield document("Raw", sink("raw"), chain=2)
    for name, task in TASKS.items():
        yield document(name.title(), {"id": "keyed", **task}, sink(name), chain=2)


def written(data: Path, name: str) -> list[Event]:
    """The events of a sink's closed files, in their order."""
    lines = (line for path in sorted(data.glob(f"outputs/{name}-*/*/events-*.json"))
             for line in path.read_text().splitlines())
    return sorted(map(json.loads, lines), key=lambda event: event["_seq"])


def faults(data: Path) -> list[str]:
    """What files hold otherwise than by the stream: an event that is missing, there twice, or of a state that was lost.

    Sinks begin at moments of their own and are behind each other: what they have in common is compared.
    """
    raw = written(data, "raw")
    checks = {"raw": _raw, "windows": _windows, "blocks": _blocks, "once": _once, "pairs": _pairs, "summed": _summed}
    return [f"{name}: {fault}" for name, check in checks.items() for fault in check(raw, written(data, name))][:50]


def _raw(raw: list[Event], _: list[Event]) -> Iterator[str]:
    keys = [(event["_seq"], event["obs"]) for event in raw]
    if len(keys) != len(set(keys)):
        yield "events come twice"
    numbers = {number for number, _ in keys}
    if numbers != set(range(min(numbers), max(numbers) + 1)):
        yield "messages are missing"


def _by_key(events: Iterable[Event]) -> dict[tuple[str, str], list[Event]]:
    of_key = defaultdict(list)
    for event in events:
        of_key[event["sensor_id"], event["obs"]].append(event)
    return of_key


def _windows(raw: list[Event], windows: list[Event]) -> Iterator[str]:
    expected = defaultdict(list)
    for event in raw:
        expected[event["sensor_id"], event["obs"], event["_time"] // WINDOW_MS * WINDOW_MS].append(event.get("value"))
    given = [(window["sensor_id"], window["obs"], window["window_start"]) for window in windows]
    if len(given) != len(set(given)):
        yield "windows come twice"
    first, last = min(start for *_, start in given), min(max(start for *_, start in given), raw[-1]["_time"])
    inside = {key: values for key, values in expected.items() if first < key[2] < last - WINDOW_MS}
    if missing := inside.keys() - set(given):
        yield f"windows are missing: {sorted(missing)[:3]}"
    for key, window in zip(given, windows, strict=True):
        values = [value for value in inside.get(key, ()) if value is not None]
        if key in inside and (window["n"], window.get("top")) != (len(inside[key]), max(values, default=None)):
            yield f"{key} has {window['n']} and {window.get('top')} of {inside[key]}"


def _blocks(raw: list[Event], blocks: list[Event]) -> Iterator[str]:
    of_key = _by_key(event for event in raw if event.get("value") is not None)
    for key, results in _by_key(blocks).items():
        for before, result in pairwise(results):
            values = [event["value"] for event in of_key[key] if before["_seq"] < event["_seq"] <= result["_seq"]]
            if result["_seq"] > raw[-1]["_seq"] or before["_seq"] < raw[0]["_seq"]:
                continue
            if len(values) != BLOCK or abs(sum(values) / BLOCK - result["value"]) > 1e-9 * max(1, abs(result["value"])):
                yield f"the block of {key} at {result['_seq']} is of {len(values)} readings"


def _once(raw: list[Event], once: list[Event]) -> Iterator[str]:
    of_key = _by_key(raw)
    for key, results in _by_key(once).items():
        passed, expected, last = results[0]["_time"], [results[0]["_seq"]], min(results[-1]["_seq"], raw[-1]["_seq"])
        for event in of_key[key]:
            if results[0]["_seq"] < event["_seq"] <= last and event["_time"] - passed >= WITHIN_MS:
                passed = event["_time"]
                expected.append(event["_seq"])
        if (given := [result["_seq"] for result in results if result["_seq"] <= last]) != expected:
            yield f"of {key} {sorted(set(given) ^ set(expected))[:5]} passed or did not"


def _pairs(raw: list[Event], pairs: list[Event]) -> Iterator[str]:
    def near(first: int, last: int) -> list[tuple[int, Any, Any]]:
        """Stations report both at once, and not again within a second."""
        of_message: dict[int, dict[str, Any]] = defaultdict(dict)
        for event in raw:
            if first <= event["_seq"] <= last:
                of_message[event["_seq"]][event["obs"]] = event.get("value")
        return [(seq, values["temperature"], values["humidity"]) for seq, values in sorted(of_message.items())
                if {"temperature", "humidity"} <= values.keys()]

    first, last = max(pairs[0]["_seq"], raw[0]["_seq"]), min(pairs[-1]["_seq"], raw[-1]["_seq"])
    given = [(pair["_seq"], pair.get("warm"), pair.get("wet")) for pair in pairs if first <= pair["_seq"] <= last]
    if given != (expected := near(first, last)):
        others = sorted({*given} ^ {*expected}, key=str)
        yield f"{len(given)} came where {len(expected)} should have, such as {others[:3]}"


def _summed(raw: list[Event], summed: list[Event]) -> Iterator[str]:
    """What a function gives names no key: the sums of a station's readings are compared, all of one message."""
    messages: dict[int, dict[str, Any]] = defaultdict(dict)
    numbers: dict[str, list[int]] = defaultdict(list)
    sums: dict[int, list[float]] = defaultdict(list)
    for event in raw:
        messages[event["_seq"]][event["obs"]] = event.get("value")
        if event["_seq"] not in numbers[event["sensor_id"]][-1:]:
            numbers[event["sensor_id"]].append(event["_seq"])
    for result in summed:
        sums[result["_seq"]].append(result["sum"])
    first, last = max(summed[0]["_seq"], raw[0]["_seq"]), min(summed[-1]["_seq"], raw[-1]["_seq"])
    for station, of_station in numbers.items():
        common = [number for number in of_station if first <= number <= last]
        if any(len(sums[number]) != len(messages[number]) for number in common):
            yield f"events of {station} are missing or come twice"
        for before, number in pairwise(common):
            added = sum(value or 0.0 for value in messages[number].values())
            if messages[before].keys() == messages[number].keys() and abs(
                    sum(sums[before]) + added - sum(sums[number])) > 1e-6:
                yield f"the sums of {station} at {number} go on from others"


if __name__ == "__main__":
    estate = django_estate()
    for text in documents():
        estate.submit(text)
