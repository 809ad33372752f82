"""A package of task types as a team would install it, made in a folder: small tasks that tests can steer."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

MODULE = '''
import random
from dataclasses import replace
from pathlib import Path

from scheduler.model.task_types import Parameter, TaskType


def numbers(ticks, config):
    return ticks.withColumn("n", ticks._seq)


def shift(events, config):
    return events.withColumn("n", events.n + config["by"])


def untimely(events, config):
    from pyspark.sql import functions as F

    late_ms = F.when(events._seq % 9 == 4, 1500).otherwise(0)
    return events.withColumn("_time", config["began_ms"] + events._seq * 100 - late_ms)


def in_python(events, config):
    def through(batches):
        for batch in batches:
            yield batch
    return events.mapInArrow(through, events.schema)


def fragile(events, config):
    broken = Path(config["broken_while"])

    def through(batches):
        for batch in batches:
            if broken.exists():
                raise ValueError(f"{broken.name} is broken")
            yield batch
    return events.mapInArrow(through, events.schema)


class Sum:
    def start(self):
        return [0.0]

    def step(self, state, value):
        state[0] += value
        return [(state[0],)]


def total(events, config):
    from pyspark.sql import functions as F

    from workers.library.state import fold_stream

    numbers = events.withColumn("n", F.col("n").cast("double"))
    kept = [name for name in events.columns if name != "n"]
    return fold_stream(
        numbers.withColumn("all", F.lit("all")), Sum(), by=["all"], reads=["n"], kept=[*kept, "n"],
        added=config["name"] + " double")


class Hoard:
    def __init__(self, length):
        self.length = length

    def start(self):
        return [0.0, ""]

    def step(self, state, value):
        state[0] += value
        if not state[1]:
            block = "".join(random.Random(value).choices("abcdefghijkl,", k=10_000))
            state[1] = (block * (self.length // len(block) + 1))[: self.length]
        return [(state[0], float(len(state[1])))]


def hoard(events, config):
    from pyspark.sql import functions as F

    from workers.library.state import fold_stream

    number, keys = F.col("_seq"), config["keys"]
    key = F.when(number < keys, number).otherwise(number % config.get("often", keys))
    numbers = events.withColumn("n", F.col("n").cast("double")).withColumn("key", key)
    kept = [name for name in events.columns if name != "n"]
    return fold_stream(
        numbers, Hoard(config["bytes"]), by=["key"], reads=["n"], kept=[*kept, "n"],
        added="sum double, held double")


def heavy(events, config):
    from workers.library.columns import STREAM
    from workers.library.state import fold_stream

    return fold_stream(
        events, Hoard(config["bytes"]), by=config["by"], reads=["value"], kept=[*STREAM, *config["by"]],
        added="sum double, held double")


def distinct(events, config):
    return events.dropDuplicates(["n"])


def ends_its_driver(events, config):
    from pyspark.sql import functions as F

    end = F.expr("java_method('java.lang.System', 'exit', 9)")
    return events.withColumn("n", F.when(events.n < config["at"], events.n).otherwise(end.cast("bigint")))


def stays_in_an_event(events, config):
    from pyspark.sql import functions as F

    # Java opens it to see what is in it, and waits for who writes: no interruption ends that, and it takes no core.
    path = Path(__file__).with_name("never-written")
    held = F.expr(f"java_method('java.lang.System', 'load', '{path}')")
    return events.withColumn("n", F.when(events.n < config["at"], events.n).otherwise(held.cast("bigint")))


def kept(events, config):
    return events


TYPES = [
    TaskType(name="numbers", kind="source", doc="Counts.", build="weir_test_types:numbers"),
    TaskType(name="shift", kind="transform", doc="Adds.", build="weir_test_types:shift",
             parameters=(Parameter("by", "integer", "How much.", required=True),)),
    TaskType(name="untimely", kind="transform", doc="Ten events a second by their times, one in nine of them late.",
             build="weir_test_types:untimely", parameters=(Parameter("began_ms", "integer", "Since when."),)),
    TaskType(name="in_python", kind="transform", doc="Passes through a Python worker.",
             build="weir_test_types:in_python", parameters=(Parameter("tag", "string", "Tells two apart."),)),
    TaskType(name="fragile", kind="transform", doc="Fails while a file is there.", build="weir_test_types:fragile",
             parameters=(Parameter("broken_while", "string", "The file.", required=True),)),
    TaskType(name="total", kind="transform", doc="Adds up.", build="weir_test_types:total", stateful=True,
             movable_state=True, key="all",
             parameters=(Parameter("name", "string", "The column.", required=True),)),
    TaskType(name="hoard", kind="transform", doc="Adds up by key, and keeps a long text of each.",
             build="weir_test_types:hoard", stateful=True, movable_state=True, key="key",
             parameters=(Parameter("keys", "integer", "How many.", required=True),
                         Parameter("bytes", "integer", "Of each text.", required=True),
                         Parameter("often", "integer", "How many come again; all by default.", required=False))),
    TaskType(name="heavy", kind="transform", doc="Adds up by a key, and keeps a long text of each.",
             build="weir_test_types:heavy", stateful=True, movable_state=True, by_key=True, passes_key=True, key="by",
             parameters=(Parameter("by", "list", "The key.", required=True, items="string", column="names"),
                         Parameter("bytes", "integer", "Of each text.", required=True))),
    TaskType(name="distinct", kind="transform", doc="Drops repetitions.", build="weir_test_types:distinct",
             stateful=True, key="n"),
    *(TaskType(name=name, kind="transform", doc="Does harm.", build=f"weir_test_types:{name}",
               parameters=(Parameter("at", "integer", "From this number on.", required=True),))
      for name in ("ends_its_driver", "stays_in_an_event")),
    TaskType(name="kept", kind="sink", doc="A named output.", build="weir_test_types:kept", terminal="output"),
    TaskType(name="whole_files", kind="sink", doc="Parquet files.", build="weir_test_types:kept", terminal="parquet",
             parameters=(Parameter("folder", "string", "Where.", required=True),)),
]
TYPES = [replace(one, effects=()) for one in TYPES]
'''


def install(folder: Path) -> Path:
    """Make the package in a folder that is then to be on the import path."""
    (folder / "weir_test_types.py").write_text(MODULE)
    os.mkfifo(folder / "never-written")
    info = folder / "weir_test_types-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weir-test-types\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[weir.task_types]\ntest = weir_test_types:TYPES\n")
    importlib.invalidate_caches()
    return folder
