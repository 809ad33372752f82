"""A package with functions for ``python`` tasks, installed in a folder as pip would."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from workers.library.packages import function_of

VERSION = "1.2"
MODULE = '''
import sys

import pyarrow as pa
import pyarrow.compute as pc


def doubled(table, arguments):
    """Readings above a limit, doubled."""
    table = table.filter(pc.greater(table["value"], arguments.get("above", float("-inf"))))
    return table.select(["_seq", "_time", "_born", "sensor"]).append_column(
        "twice", pc.multiply(table["value"], 2.0))


def picky(table, arguments):
    """Readings doubled, of none but those that it likes."""
    if arguments.get("away"):
        raise ConnectionError("nobody answers")
    for seq in table["_seq"].to_pylist():
        if seq in arguments["not"]:
            raise ValueError(f"not this one: {seq}")
    return table.select(["_seq", "_time", "_born"]).append_column("twice", pc.multiply(table["value"], 2.0))


def summed(table, state, arguments):
    """The sum so far; it spoils the state that it got before it fails."""
    state = state or {"sum": 0.0}
    sums = []
    for value in table["value"].to_pylist():
        state["sum"] += value or 0.0
        if value == 13.0:
            raise ValueError("unlucky")
        sums.append(state["sum"])
    return table.select(["_seq", "_time", "_born"]).append_column("sum", pa.array(sums, pa.float64())), state


def counted(table, state, arguments):
    """Every reading with how many its key had, and the largest so far; every n-th twice."""
    count, largest = state or (0, None)
    rows = {name: [] for name in ("_seq", "_time", "_born", "count", "largest", "at")}
    for event in table.to_pylist():
        count += 1
        if event["value"] is not None:
            largest = event["value"] if largest is None else max(largest, event["value"])
        for _ in range(2 if count % arguments.get("often", 10) == 0 else 1):
            for name in ("_seq", "_time", "_born"):
                rows[name].append(event[name])
            rows["count"].append(count)
            rows["largest"].append(largest)
            rows["at"].append(event["at"])
    types = [("_seq", pa.int64()), ("_time", pa.int64()), ("_born", pa.int64()), ("count", pa.int64()),
             ("largest", pa.float64()), ("at", pa.timestamp("us", tz="UTC"))]
    return pa.table(rows, schema=pa.schema(types)), [count, largest]


def talks(table, arguments):
    for number in table["n"].to_pylist():
        print("heard", number)
        print("doubts", number, file=sys.stderr)
    return table.select(["_seq", "_time", "_born", "n"])


def fails(table, arguments):
    raise ValueError("it is broken")


SHAPES = {
    "list": lambda table: [1], "fewer": lambda table: table.select(["_seq", "_time", "_born"]),
    "near": lambda table: table.select(["_seq", "_time", "_born"]).append_column("twise", table["value"]),
    "more": lambda table: table.select(["_seq", "_time", "_born", "sensor"]).append_column("twice", table["value"]),
    "type": lambda table: table.select(["_seq", "_time", "_born"]).append_column("twice", table["sensor"]),
    "unmarked": lambda table: table.select(["_time", "_born"]).append_column("twice", table["value"]),
    "null": lambda table: pa.table({"_seq": pa.nulls(table.num_rows, pa.int64()), "_time": table["_time"],
                                    "_born": table["_born"], "twice": table["value"]}),
}


def shaped(table, arguments):
    return SHAPES[arguments["shape"]](table)


def stateful(table, state, arguments):
    """What functions with a state do wrong."""
    result = table.select(["_seq", "_time", "_born"]).append_column("twice", table["value"])
    wrong = arguments["wrong"]
    if wrong == "alone":
        return result
    if wrong == "seq":
        return result.set_column(0, "_seq", pc.add(result["_seq"], 1000)), None
    return result, {"set": {1}, "large": "x" * 2_000_000}[wrong]
'''


def install_package(folder: Path, patch: pytest.MonkeyPatch, *, allowed: str = "sensors") -> Path:
    """Install the package ``weir-sensors`` and let the operator allow it; its folder is on the path."""
    package = folder / "sensors"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("raise_if_imported = True\n")
    (package / "checks.py").write_text(MODULE)
    info = folder / f"weir_sensors-{VERSION}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: weir-sensors\nVersion: {VERSION}\n")
    (info / "top_level.txt").write_text("sensors\n")
    (info / "RECORD").write_text("sensors/__init__.py,,\nsensors/checks.py,,\n")
    patch.syspath_prepend(str(folder))
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])))
    patch.setenv("WEIR_PYTHON_PACKAGES", allowed)
    for name in [name for name in sys.modules if name.partition(".")[0] == "sensors"]:
        del sys.modules[name]  # of another folder, where other tests installed it
    function_of.cache_clear()
    importlib.invalidate_caches()  # the folder may have been listed before, and bear the same time still
    return folder
