"""The catalogue: what is declared holds together, and packages add to it without being able to break it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.applying import apply_plan
from scheduler.model.columns import Columns, UnknownColumn
from scheduler.model.documents import read_document
from scheduler.model.errors import NotFound
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskType
from scheduler.planning import plan_submission
from tests.packages import EXAMPLE, ROOT, install_package
from workers.library import describe, registry
from workers.library.config import InvalidConfig, settings
from workers.library.samples import SAMPLES


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Installs a package by its metadata alone: modules by name, and entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name: str, entry_points: dict[str, str], modules: dict[str, str]) -> None:
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{key} = {value}" for key, value in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *lines]))
        for module, source in modules.items():
            (tmp_path / f"{module}.py").write_text(source)
        importlib.invalidate_caches()
        registry.refresh()

    yield install
    registry.refresh()


def test_the_catalogue_needs_no_spark():
    code = (
        "import sys; from workers.library.registry import task_types, check; types = task_types();"
        "check(types['range_filter'], {'ranges': {'a': [0, 1]}}); print(len(types), 'pyspark' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    count, spark = printed.split()
    assert int(count) >= 26
    assert spark == "False"


@pytest.mark.parametrize("task_type", registry.built_in(), ids=lambda task_type: task_type.name)
def test_a_declaration_holds_together(task_type: TaskType):
    assert callable(registry.resolve(task_type))
    assert task_type.family in describe.FAMILIES
    assert task_type.doc.endswith(".") and task_type.cost_us > 0
    assert task_type.terminal is None or task_type.kind == "sink"
    assert not task_type.stateful or (task_type.key and task_type.movable_state)
    names = [parameter.name for parameter in task_type.parameters]
    assert len(names) == len(set(names))
    for parameter in task_type.parameters:
        assert parameter.doc.rstrip(".") != parameter.doc
        assert not (parameter.required and parameter.default is not None)
        if parameter.choices and parameter.default is not None:
            assert parameter.default in parameter.choices
        if parameter.pattern:
            re.compile(parameter.pattern)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_sample_is_valid_and_can_be_built(path: Path):
    types = registry.task_types()
    dataflow = read_document(
        path.read_text(), task_types=types, format="yaml", check_config=registry.check, columns_of=registry.columns_of)
    assert dataflow.name and dataflow.description
    assert [registry.check(types[task.type], task.config) for task in dataflow.tasks] == [None] * len(dataflow.tasks)
    estate = Estate(slots=(Slot("n1", 0),))
    plan = plan_submission(estate, dataflow, dataflow_id="d", team="t", task_types=types, prices=Prices())
    assert plan.price.cores_alone > 0 and plan.price.money_per_hour_delta > 0


def test_predictions_share_what_learns_their_models():
    """RIoTBench's PRED dataflow beside its TRAIN: of one team, its models are learned once."""
    types, estate = registry.task_types(), Estate(slots=(Slot("n1", 0),))
    for name in ("taxi_train", "taxi_predictions"):
        dataflow = read_document((SAMPLES / f"{name}.yaml").read_text(), task_types=types)
        plan = plan_submission(estate, dataflow, dataflow_id=name, team="city", task_types=types, prices=Prices())
        estate = apply_plan(estate, plan)
    assert plan.price.tasks_reused == 6
    running = [estate.submitted[name].running for name in ("taxi_train", "taxi_predictions")]
    assert all(running[0][task] == running[1][task] for task in ("trips", "parse", "fares", "classes"))


def test_samples_cover_the_sources_and_overlap():
    dataflows = [read_document(path.read_text(), task_types=registry.task_types()) for path in SAMPLES.glob("*.yaml")]
    assert {task.type for dataflow in dataflows for task in dataflow.tasks} >= {
        "urban_sensing", "taxi_trips", "smart_meter", "wearable", "pi_viete"}
    heads = [repr(dataflow.tasks[:2]) for dataflow in dataflows]
    assert max(heads.count(head) for head in heads) >= 4


def test_settings_fill_in_defaults_and_ask_for_what_is_required():
    output = registry.task_types()["output"]
    assert settings(output, {"name": "n", "rate_per_s": 5}) == {"name": "n", "keep_events": 1000}
    with pytest.raises(InvalidConfig) as caught:
        settings(output, {"keep_events": 3})
    assert "name" in caught.value.message and caught.value.remedy


@pytest.mark.parametrize("name,config", [
    ("range_filter", {"ranges": {}}),
    ("range_filter", {"ranges": {"a": [2, 1]}}),
    ("range_filter", {"ranges": {"a": "1..2"}}),
    ("range_filter", {"ranges": {"a": [1, True]}}),
    ("bloom_filter", {}),
    ("bloom_filter", {"prefix": "urban"}),
    ("senml_parse", {"schema": "urban", "fields": ["fare_amount"]}),
    ("senml_parse", {"schema": "own", "fields": ["a"]}),
    ("csv_parse", {"columns": ["a:decimal"]}),
    ("csv_parse", {"columns": ["a", "a"]}),
    ("json_parse", {"columns": ["_seq"]}),
    ("xml_parse", {"columns": ["a`b"]}),
    ("join_by_message", {"schema": "own"}),
    ("join_by_message", {"fields": ["meta"]}),
    ("block_average", {"by": []}),
    ("distinct_count", {"by": ["value"]}),
    ("accumulate", {"by": ["obs", "obs"]}),
    ("annotate", {"table": "file"}),
    ("replay", {"path": "nothing-there.csv"}),
])
def test_a_config_that_cannot_be_built_is_told_with_a_remedy(name, config, data_dir):
    problem = registry.check(registry.task_types()[name], config)
    assert isinstance(problem, InvalidConfig)
    assert problem.message and problem.remedy


def test_packages_add_types_in_every_form(packages):
    source = (
        "from scheduler.model.task_types import TaskType\n"
        "ONE = TaskType(name='one', kind='transform', doc='One.', build='forms:build')\n"
        "TWO = TaskType(name='two', kind='transform', doc='Two.', build='forms:build')\n"
        "def three(): return [TaskType(name='three', kind='sink', doc='Three.', build='forms:build')]\n"
        "def build(inputs, config): return inputs\n"
    )
    packages("forms", {"a": "forms:ONE", "b": "forms:many", "c": "forms:three"}, {"forms": source + "many = [TWO]\n"})
    types = registry.task_types()
    assert {"one", "two", "three", "urban_sensing"} <= set(types)
    assert registry.plugin_problems() == ()
    assert registry.resolve(types["two"])("events", {}) == "events"


def test_a_broken_package_is_reported_and_the_rest_works(packages):
    good = (
        "from scheduler.model.task_types import TaskType\n"
        "TASK = TaskType(name={!r}, kind='sink', doc='.', build='x:y')"
    )
    packages("broken", {
        "absent": "no_such_module:TASK", "failing": "failing:TASK", "taken": "taken:TASK", "wrong": "wrong:TASK",
        "zfine": "fine:TASK",
    }, {
        "failing": "raise RuntimeError('boom')", "taken": good.format("senml_parse"), "wrong": "TASK = 7",
        "fine": good.format("fine_type"),
    })
    types = registry.task_types()
    assert types["senml_parse"].build.startswith("workers.library.")
    assert "fine_type" in types
    problems = {problem.entry_point: problem for problem in registry.plugin_problems()}
    assert set(problems) == {"absent", "failing", "taken", "wrong"}
    assert {problem.package for problem in problems.values()} == {"broken"}
    assert "boom" in problems["failing"].message and "senml_parse" in problems["taken"].message
    with pytest.raises(NotFound, match="fine_type"):
        registry.resolve(types["fine_type"])


def test_the_example_package_installs_and_brings_its_types(tmp_path, monkeypatch):
    target = tmp_path / "target"
    install_package(EXAMPLE, target)
    monkeypatch.syspath_prepend(str(target))
    for module in ("weir_example_plugin", "weir_example_streams"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    registry.refresh()
    try:
        alarm = registry.task_types()["limit_alarm"]
        assert registry.resolve(alarm).__name__ == "limit_alarm"
        assert registry.check(alarm, {"obs": "dust", "limit": 5, "severe_above": 9}) is None
        assert registry.check(alarm, {"obs": "dust", "limit": 5, "severe_above": 1}).remedy
        inputs = Columns.stream({"obs": "string", "value": "double"})
        given = registry.columns_of(alarm, inputs, {"obs": "a", "limit": 1})
        assert list(given.types.items())[-2:] == [("excess", "double"), ("severe", "boolean")]
        with pytest.raises(UnknownColumn):
            registry.columns_of(alarm, Columns.stream({"obs": "string"}), {"obs": "a", "limit": 1})
        source = registry.task_types()["redis_stream"]
        config = {"server": "127.0.0.1", "stream": "orders", "columns": ["n:bigint"]}
        monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "127.0.0.1")
        assert registry.check(source, config) is None and source.approved_only
        assert registry.columns_of(source, Columns.stream({}), config).type_of("n") == "bigint"
        sink = registry.task_types()["to_redis_stream"]
        assert registry.check(sink, {"server": "127.0.0.1", "stream": "orders"}) is None and sink.approved_only
        assert registry.check(sink, {"server": "127.0.0.2", "stream": "orders"}).remedy
        for wrong in ({"server": "127.0.0.2"}, {"columns": []}, {"time_field": "at"}):
            assert registry.check(source, config | wrong).remedy
    finally:
        registry.refresh()


def test_a_package_that_declares_no_columns_or_fails_to_leaves_them_unknown(packages):
    packages("open", {"o": "opens:TASKS"}, {"opens": (
        "from scheduler.model.task_types import TaskType\n"
        "TASKS = [TaskType(name='silent', kind='transform', doc='.', build='opens:silent'),\n"
        "         TaskType(name='broken', kind='transform', doc='.', build='opens:broken'),\n"
        "         TaskType(name='absent', kind='transform', doc='.', build='nowhere:absent')]\n"
        "def silent(inputs, config): return inputs\n"
        "def broken(inputs, config): return inputs\n"
        "def broken_columns(inputs, values): return 1 / 0\n")})
    for name in ("silent", "broken", "absent"):
        assert registry.columns_of(registry.task_types()[name], Columns.stream({}), {}) == Columns.unknown()


def test_every_type_of_the_library_is_described():
    text = describe.tables()
    assert all(f"### `{task_type.name}`" in text for task_type in registry.built_in())
