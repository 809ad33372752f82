"""A package with one task type: somebody who is past every first wall, and runs code of their own in a slot."""

from __future__ import annotations

import importlib
from pathlib import Path

MODULE = '''
import json
import os
import signal
import socket
from pathlib import Path

import redis
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from scheduler.model.task_types import Parameter, TaskType


def attempt(what):
    try:
        return f"had: {what()}"[:2_000]
    except Exception as error:
        return f"refused: {type(error).__name__}: {error}"[:300]


def knock(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(path)
        connection.sendall(b"\\0\\0\\0\\1bx")
        if not connection.recv(1):
            raise ConnectionError("it hung up")


def in_python(wanted):
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    return {
        **{f"read {name}": attempt(lambda: Path(path).read_text()) for name, path in wanted["read"].items()},
        **{f"write {name}": attempt(lambda: Path(path).write_text("x")) for name, path in wanted["write"].items()},
        **{f"list {name}": attempt(lambda: os.listdir(path)) for name, path in wanted["list"].items()},
        **{f"broker {' '.join(command)}": attempt(lambda: client.execute_command(*command))
           for command in wanted["broker"]},
        **{f"socket {name}": attempt(lambda: knock(path)) for name, path in wanted["sockets"].items()},
        "environment": json.dumps(dict(os.environ)),
        "processes' environments": json.dumps([
            attempt(lambda: Path(f"/proc/{pid}/environ").read_text()) for pid in wanted["pids"]]),
        "signal": attempt(lambda: [os.kill(pid, 0) for pid in wanted["pids"]]),
        "root": attempt(lambda: os.setuid(0)) if os.getuid() else "refused: it has no other",
    }


def in_spark(spark, wanted):
    files = spark._jvm.java.nio.file.Files
    path_of = spark._jvm.java.nio.file.Paths.get
    nothing = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.String, 0)
    found = {}
    for name, path in wanted["read"].items():
        found[f"read {name}"] = attempt(lambda: files.readString(path_of(path, nothing)))
    for name in ("database", "own"):
        found[f"sql {name}"] = attempt(lambda: spark.sql(f"SELECT value FROM text.`{wanted['read'][name]}`").collect())
    found["environment"] = attempt(lambda: dict(spark._jvm.java.lang.System.getenv()))
    found["sql environment"] = attempt(lambda: spark.sql(
        "SELECT " + ", ".join(f"java_method('java.lang.System', 'getenv', '{name}')" for name in wanted["variables"])
    ).collect())
    return found


def thief(events, config):
    wanted = json.loads(config["wanted"])
    driver = {"driver": in_python(wanted), "spark": in_spark(events.sparkSession, wanted)}

    def through(batches):
        import pyarrow as pa
        for batch in batches:
            loot = json.dumps({"worker": in_python(wanted)})
            yield batch.append_column("worker", pa.array([loot] * len(batch)))
    schema = StructType([*events.schema.fields, StructField("worker", StringType())])
    return events.mapInArrow(through, schema).withColumn("driver", F.lit(json.dumps(driver)))


def moments(ticks, config):
    return ticks.withColumn("n", ticks._seq)


TYPES = [
    TaskType(name="moments", kind="source", doc="Counts.", build="weir_break_out:moments", effects=()),
    TaskType(
        name="thief", kind="transform", doc="Takes what it can.", build="weir_break_out:thief", effects=(),
        parameters=(Parameter("wanted", "string", "What, as JSON.", required=True),))]
'''


def install(folder: Path) -> Path:
    """Make the package in a folder that is then to be on the import path."""
    folder.chmod(0o755)
    (folder / "weir_break_out.py").write_text(MODULE)
    info = folder / "weir_break_out-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weir-break-out\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[weir.task_types]\nbreak_out = weir_break_out:TYPES\n")
    importlib.invalidate_caches()
    return folder
