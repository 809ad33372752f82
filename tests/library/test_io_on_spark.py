"""The tasks that ask other systems, on Spark: side by side in partitions, order and columns kept."""

from __future__ import annotations

import json
import sqlite3

import pytest

from workers.library.state import going_on

from .conftest import build
from .test_download import store  # noqa: F401 (a fixture)

pytestmark = pytest.mark.spark


def test_a_chain_of_them(spark, ticks, store, tmp_path, monkeypatch):  # noqa: F811
    from pyspark.sql import functions as F

    monkeypatch.setenv("WEIR_REPLAY_DIRS", str(tmp_path))
    monkeypatch.setenv("WEIR_DATA_DIR", str(tmp_path / "data"))
    with sqlite3.connect(tmp_path / "places.db") as made:
        made.execute("create table places (id integer, place text)")
        made.executemany("insert into places values (?, ?)", [(even, f"place {even}") for even in range(0, 24, 2)])
    made.close()

    xml = F.format_string('<m id="%d"><r><v>%s</v></r><r><v>x</v></r></m>', F.col("_seq"), F.col("_seq"))
    document = build("xml_document", ticks(24).withColumn("xml", xml).repartitionByRange(2, "_seq"),
                     values=["id:bigint=@id", "v:double=r/v"])
    looked_up = build("sql_lookup", document, database="sqlite:places.db", columns=["place"],
                      query="select place from places where id = :id")
    name = F.when(F.col("id") == 5, "missing").when(F.col("id") == 7, F.lit(None)).otherwise(
        F.col("id").cast("string"))
    named = looked_up.withColumn("name", name)
    fetched = build("http_get", named, url=f"http://{store.host}/{{name}}", on_error="drop")
    with going_on("0123456789abcdef"):
        archived = build("file_batches", fetched, folder="days", events=5)
    rows = archived.collect()
    assert archived.columns == ["_seq", "_time", "_born", "id", "v", "place", "name", "body", "body_bytes",
                                "body_status", "file"]
    left = [number for number in range(24) if number not in (5, 7)]
    assert [(row.id, row.v, row.place, row.body, row.body_status) for row in rows] == [
        (number, number, f"place {number}" if number % 2 == 0 else None, f"<{number}>", 200) for number in left]
    files = {path.name: [json.loads(line)["id"] for line in path.read_text().splitlines()]
             for path in (tmp_path / "data" / "outputs" / "days-0123456789ab").iterdir()}
    assert sorted(number for numbers in files.values() for number in numbers) == left
    assert {row.file: row.id in files[row.file] for row in rows} == dict.fromkeys(files, True)
    assert {len(numbers) for numbers in files.values()} <= {1, 2, 3, 4, 5} and store.connections <= 4
