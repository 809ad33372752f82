"""Samples over other systems, with real servers: the example that each of them shows is read as its columns say, and
the table that it asks for takes what its window gives."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import yaml

from scheduler.contracts.looks import DONE, LookOrder, LookState
from scheduler.contracts.offsets import Offset
from scheduler.model.documents import columns_of_document
from tests.postgresql import cluster
from workers.engine.connectors.contract import Message
from workers.engine.connectors.formats import decode, layout_of
from workers.engine.connectors.looking import look
from workers.engine.sinks.contract import Batch, SinkOpening
from workers.engine.sinks.postgresql_sink import open_postgresql
from workers.library.arrow_types import arrow_type, rows_in
from workers.library.config import settings
from workers.library.registry import columns_of, task_types
from workers.library.samples import SAMPLES

from .playing import until
from .rigs import rig_of

LIVE = {path.stem: path.read_text(encoding="utf-8") for path in SAMPLES.glob("live/*.yaml")}
NOW_MS = 1_790_000_000_000  # September 2026, when each example has happened


def config_of(sample: str, task: str) -> dict[str, Any]:
    tasks = {task["id"]: task for task in yaml.safe_load(LIVE[sample])["tasks"]}
    return settings(task_types()[tasks[task]["type"]], tasks[task]["config"])


def comments_of(sample: str) -> str:
    return " ".join(re.findall(r"^# *(.*)$", LIVE[sample], re.MULTILINE))


def example_of(sample: str) -> bytes:
    """The message that the sample shows how to send."""
    return re.search(r"\[?\{.*\}\]?", comments_of(sample))[0].encode()


@pytest.mark.parametrize(("sample", "source", "wanted"), [
    ("mqtt_to_postgresql", "rooms", {"room": "7", "celsius": 21.5}),
    ("kafka_to_delta", "orders", {"id": 17, "customer": "c3", "total": 129.9}),
    ("http_to_page", "posted", {"meter": "m1", "kwh": 1.5})])
def test_the_example_of_a_sample_is_read_by_its_columns(sample: str, source: str, wanted: dict[str, Any]) -> None:
    layout = layout_of(config_of(sample, source))
    decoded = decode([Message(example_of(sample))], layout, now_ms=NOW_MS)
    assert decoded.dead == []
    [row] = decoded.rows
    assert wanted.items() <= dict(zip(layout.columns, row, strict=True)).items()


@pytest.mark.broker
@pytest.mark.parametrize(("kind", "sample", "source"), [
    ("mqtt 5", "mqtt_to_postgresql", "rooms"), ("kafka", "kafka_to_delta", "orders")])
def test_the_example_comes_through_a_real_server(
    kind: str, sample: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rig_of(kind) as rig:
        rig.anew()
        for name, value in rig.environment.items():
            monkeypatch.setenv(name, value)
        config = config_of(sample, source) | {
            name: rig.task().config[name] for name in ("server", "servers", "topics") if name in rig.task().config}
        looks: list[tuple[LookState, pa.RecordBatch | None]] = []
        events: list[dict[str, Any]] = []

        def tell(state: LookState, batch: pa.RecordBatch | None) -> None:
            looks.append((state, batch))
            if state.state == "looking" and len(looks) == 1 and kind.startswith("mqtt"):
                rig.publish(example_of(sample))  # it keeps none for who comes later
            if batch is not None:
                events[:] = rows_in(batch)

        if kind == "kafka":
            rig.produce(example_of(sample))
        look(LookOrder("0" * 32, "n1", rig.task().type, config, count=1, waits_s=60.0), task_types(),
             opened=lambda given: given, tell=tell)
        until(lambda: looks[-1][0].is_over)
        assert looks[-1][0].state == DONE and looks[-1][0].unread == (), looks[-1][0]
        [event] = events
        assert set(event) == {"_seq", "_time", "_born", *layout_of(config).columns}


def test_the_table_of_the_sample_takes_what_its_window_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    table = config_of("mqtt_to_postgresql", "table")
    columns = columns_of_document(
        LIVE["mqtt_to_postgresql"], format="yaml", task_types=task_types(), columns_of=columns_of)["table"].inputs
    kinds = {name: columns.type_of(name) for name in table["columns"]}
    statement = re.search(r"create table .*?\)\);", comments_of("mqtt_to_postgresql"))[0]
    with cluster() as address:
        monkeypatch.setenv(
            "WEIR_DATABASE_HOSTS", address.partition("@")[2].partition(":")[0].replace("%2F", "/").lower())
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(statement)
        writer = open_postgresql(SinkOpening(
            "sample-sink", "t", {**table, "database": address}, list(kinds), Offset("0-0")))
        refused: list[Any] = []
        row = {"room": "7", "window_start": 0, "celsius": 21.5, "readings": 2}
        schema = pa.schema([(name, arrow_type(kind or "string")) for name, kind in kinds.items()])
        for number, readings in enumerate((2, 3), start=1):  # the second takes the place of the first
            writer.write(Batch(
                pa.Table.from_pylist([row | {"readings": readings}], schema), Offset(f"{number - 1}-0"),
                Offset(f"{number}-0")), refused.extend)
        writer.close()
        with psycopg.connect(address) as connection:
            rows = connection.execute("select room, window_start, celsius, readings from room_minutes").fetchall()
    assert refused == [] and rows == [("7", 0, 21.5, 3)]
