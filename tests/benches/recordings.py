"""Recordings to replay: files of seeded SenML messages, so that two sides of a measurement get the same input."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path

from workers.library.event_schemas import EventSchema

BEGAN_MS = 1_700_000_000_000
GAP_SHARE = 0.02
Range = tuple[float, float, int]  # lowest, highest, decimals


def write_recording(
    path: Path, schema: EventSchema, ranges: Mapping[str, Range], *, count: int, sensors: int, seed: int = 20,
    every_ms: int = 10,
) -> None:
    """Write a file of messages, one a line: sensors report in turn, a reading is uniform within its range or missing.

    Sensors are called as the generators call them, by the schema's name and a number.

    Parameters
    ----------
    path : Path
        The file.
    schema : EventSchema
        Columns and their types.
    ranges : mapping of str to Range
        The range of each reading.
    count : int
        How many messages.
    sensors : int
        How many sensors.
    seed : int, optional
        Of the random numbers.
    every_ms : int, optional
        Milliseconds between two messages.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            at_ms, sensor = BEGAN_MS + number * every_ms, number % sensors
            entries = [{"u": "string", "n": schema.id_field, "sv": f"{schema.name}-{sensor:04}"}]
            entries += [_metadata(schema, name, sensor) for name in schema.meta_fields]
            for name, (low, high, decimals) in ranges.items():
                if rng.random() >= GAP_SHARE:
                    value = round(rng.uniform(low, high), decimals)
                    entries.append({"v": str(value), "u": schema.units[name], "n": name})
            file.write(f"{at_ms},{json.dumps({'e': entries, 'bt': at_ms}, separators=(',', ':'))}\n")


def _metadata(schema: EventSchema, name: str, sensor: int) -> dict[str, str]:
    if name in schema.strings:
        return {"u": schema.units[name], "n": name, "sv": f"{name}-{sensor}"}
    return {"u": schema.units[name], "n": name, "v": f"{6 + sensor / 100}"}
