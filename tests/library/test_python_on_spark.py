"""Functions of packages on Spark: each table for itself, by key with a state, and one that fails."""

from __future__ import annotations

import pytest

from .conftest import START_MS, build
from .package import install_package

pytestmark = pytest.mark.spark
READINGS = "_seq bigint, _time bigint, _born bigint, sensor string, value double, at timestamp, tags array<string>"


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory, spark):
    """Python workers get the path of the package: it has no part in the environment that they were started with."""
    folder = tmp_path_factory.mktemp("packages")
    with pytest.MonkeyPatch.context() as patch:
        install_package(folder, patch)
        for file in ("__init__.py", "checks.py"):
            assert (folder / "sensors" / file).exists()
        spark.sparkContext.environment["PYTHONPATH"] = str(folder)
        spark.sparkContext._python_includes.append(str(folder))
        yield folder
        spark.sparkContext._python_includes.remove(str(folder))
        spark.sparkContext.environment.pop("PYTHONPATH", None)


def readings(count: int) -> list[tuple]:
    from datetime import UTC, datetime, timedelta

    base = datetime(2026, 5, 1, tzinfo=UTC)
    return [
        (seq, START_MS + seq, START_MS + seq, f"s{seq % 3}", None if seq % 7 == 3 else seq / 4,
         base + timedelta(seconds=seq), ["x"]) for seq in range(count)]


def test_each_table_for_itself(stream):
    events = stream(READINGS)
    events.add(readings(20), sizes=[7])
    rows = events.run(lambda frame: build(
        "python", frame, function="sensors.checks:doubled", version="1.2", columns=["twice:double", "sensor"],
        arguments={"above": 1.0}))
    assert rows == [
        (seq, START_MS + seq, START_MS + seq, seq / 2, f"s{seq % 3}") for seq in range(5, 20) if seq % 7 != 3]


def test_by_key_neither_batches_nor_restarts_change_anything(stream):
    def counted(frame):
        return build("python_by_key", frame, function="sensors.checks:counted", version="1.2", by=["sensor"],
                     reads=["value", "at"], columns=["count:bigint", "largest:double", "at:timestamp"],
                     arguments={"often": 4})

    rows = readings(40)
    whole, cut = stream(READINGS), stream(READINGS)
    whole.add(rows, sizes=[])
    expected = whole.run(counted)
    cut.add(rows[:25], sizes=[4])
    results = cut.run(counted)
    cut.add(rows[25:], sizes=[])
    results += cut.run(counted)
    assert results == expected and len(expected) == 40 + 3 * 3
    assert expected[-1][3:5] == (14, 9.75) and [row[0] for row in expected] == sorted(row[0] for row in expected)
    assert expected[0][5] is not None and expected[0][5].second == rows[0][5].second


def test_a_function_that_gives_other_columns_stops_the_query_and_says_so(stream):
    events = stream(READINGS)
    events.add(readings(3), sizes=[])
    with pytest.raises(Exception, match=r"InvalidConfig: The function .* gave no column"):
        events.run(lambda frame: build("python", frame, function="sensors.checks:shaped", version="1.2",
                                       columns=["twice:double"], arguments={"shape": "near"}))


def test_events_that_a_function_cannot_do_come_out_marked_and_others_as_they_would(stream):
    events = stream(READINGS)
    events.add(readings(20), sizes=[7])
    rows = events.run(lambda frame: build(
        "python", frame, function="sensors.checks:picky", version="1.2", columns=["twice:double"],
        arguments={"not": [4, 11]}, on_error="mark"))
    assert [row[0] for row in rows] == list(range(20))
    assert [row[0] for row in rows if row[4] is not None] == [4, 11]
    assert [row[3] for row in rows] == [
        None if seq % 7 == 3 or seq in (4, 11) else seq / 2 for seq in range(20)]


def test_a_function_that_raises_stops_the_query_and_says_where(stream):
    events = stream(READINGS)
    events.add(readings(3), sizes=[])
    with pytest.raises(Exception, match=r"InvalidConfig: The function sensors.checks:picky raised ValueError: .*line"):
        events.run(lambda frame: build("python", frame, function="sensors.checks:picky", version="1.2",
                                       columns=["twice:double"], arguments={"not": [1]}))
