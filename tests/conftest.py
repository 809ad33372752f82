"""What every test may ask for: an embedded broker of its own, a state folder, and the shared data sets."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import redis
from django.conf import settings as django_settings
from django.core.management.color import no_style
from django.db import connection
from django.test import TransactionTestCase

from tests import driver_files
from tests.driver_files import locked, running_broker
from workers.engine.channels.jvm import build
from workers.launcher import broker as embedded
from workers.processes import kill_group, spawn

ROOT = Path(__file__).resolve().parent.parent
pytest_plugins = ["tests.forks"]

# Tests make and forget much at once: at Python's own thresholds the collector takes a fifth of their time.
gc.set_threshold(50_000, 20, 20)
# How fast a busy machine draws cases says nothing of what is tested.
hypothesis.settings.register_profile("weir", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("same", hypothesis.settings.get_profile("weir"), derandomize=True)
BEGAN_S = pytest.StashKey[float]()
MAKING = pytest.StashKey[subprocess.Popen[bytes]]()
DRIVER_FILES = "java-channels"
SHARE, FEWEST = 8, 5  # a default run draws an eighth of the cases of a property, and so many at least; a long one all


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take minutes")
    parser.addoption(
        "--within", type=float, default=0.0, metavar="SECONDS",
        help="begin no test later than so long after the first, and keep to the order in which files are given")


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same cases in each short run of the same tests, so that it says something of the change alone.

    A long run draws others each time, and more of them.
    """
    hypothesis.settings.load_profile("weir" if config.getoption("--long") else "same")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Make what drivers start from while tests are collected, which is work for one core."""
    config = session.config
    if config.getoption("--forks") and not config.option.collectonly:
        folder = shared_folder(config._tmp_path_factory, DRIVER_FILES)
        config.stash[MAKING] = spawn((sys.executable, "-m", "tests.driver_files", str(folder)),
                                     env={**os.environ, "PYTHONPATH": str(ROOT)})


def pytest_unconfigure(config: pytest.Config) -> None:
    if (making := config.stash.get(MAKING, None)) is not None:
        kill_group(making)


# What tests of a folder share, and the fixtures that start it: those who ask for one stay with one worker, so it is
# started once; what asks for none goes wherever there is room.
RIGS: dict[str, dict[str, set[str]]] = {
    "browser": {"site": {"site", "browser"}}, "library": {"library's driver": {"spark"}},
    "engine/channels/contract": {"contract's driver": {"spark"}},
    "engine/spark": {"slots": {"rig"}, "nodes": {"hosts"}}}
WHOLE = ("architecture",)  # what is read of all files serves the whole folder
# What takes longest begins first, so that no worker is left with it while the others have nothing to do. Where there is
# no archive of a driver's classes yet, who asks for a driver waits until it is made: others do what needs none.
LONGEST_FIRST = (
    "slots", "slots that die", "site", "test_postgresql.py", "architecture", "test_open_batches.py",
    "test_every_page.py", "library's driver", "nodes", "first light", "contract's driver", "moving",
    "test_looks_leave_nothing.py", "test_looks.py", "test_node.py", "test_chaining.py", "test_routes.py",
    "test_pacing.py", "test_openapi.py")


def _group(item: pytest.Item) -> str:
    """What stays with one worker: all that shares a rig, else the tests of a file."""
    folder = item.path.parent
    folder = folder.relative_to(ROOT / "tests").as_posix() if folder.is_relative_to(ROOT / "tests") else ""
    if folder in WHOLE:
        return folder
    rig = next((rig for rig, fixtures in RIGS.get(folder, {}).items() if fixtures & set(item.fixturenames)), None)
    return rig or item.path.name


def _begins(item: pytest.Item) -> int:
    group = item.get_closest_marker("xdist_group").args[0]
    return LONGEST_FIRST.index(group) if group in LONGEST_FIRST else len(LONGEST_FIRST)


def _draw_fewer(item: pytest.Function) -> None:
    """Let Hypothesis draw a part of the cases."""
    is_machine = isinstance(getattr(item.cls, "settings", None), hypothesis.settings)  # Django's tests have a method
    test = item.cls if is_machine else item.function
    name = "settings" if test is item.cls else "_hypothesis_internal_use_settings"
    settings = getattr(test, name, None)
    if isinstance(settings, hypothesis.settings) and "draws_fewer" not in vars(test):
        fewer = max(FEWEST, settings.max_examples // SHARE)
        setattr(test, name, hypothesis.settings(settings, max_examples=min(settings.max_examples, fewer)))
        test.draws_fewer = True


@pytest.hookimpl(wrapper=True, tryfirst=True)  # pytest-django sorts anew in between
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    for item in items:  # where tests are spread over processes, what stays with one
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_group(item)))
        if item.get_closest_marker("long") and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason="takes long: ./weir test --long runs it"))
        if not config.getoption("--long") and isinstance(item, pytest.Function):
            _draw_fewer(item)
    given = {item: number for number, item in enumerate(items)}
    yield
    items.sort(key=given.__getitem__ if config.getoption("--within") else _begins)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was collected: thousands of tests and all modules stay to the end.

    Forks then write to few of its pages, and share the others.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    within_s = item.config.getoption("--within")
    if within_s and BEGAN_S in item.config.stash and time.monotonic() > item.config.stash[BEGAN_S] + within_s:
        pytest.skip(f"--within={within_s:g} ended the run before this test; without it all run")
    item.config.stash.setdefault(BEGAN_S, time.monotonic())


def shared_folder(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that all processes of a run share."""
    from tests.forks import WORKER

    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if WORKER in os.environ else folder) / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite database with every migration: the one that set-up keeps, else made once for all workers of a run."""
    from django.db.migrations.loader import MigrationLoader

    from dashboard.core.migrated_database import keep_file, template_file

    folder = shared_folder(tmp_path_factory, "migrated")
    path = folder / "weir.sqlite3"
    with locked(folder):
        template = None if path.exists() else template_file(MigrationLoader(None))
        if template is not None and template.is_file():
            shutil.copyfile(template, path)
        elif not path.exists():
            variables = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
            making = folder / "making"
            subprocess.run(
                (sys.executable, str(ROOT / "manage.py"), "migrate", "--no-input", "--verbosity", "0"), check=True,
                cwd=ROOT, env={**variables, "WEIR_DATA_DIR": str(making)})
            with closing(sqlite3.connect(making / path.name)) as made, closing(sqlite3.connect(path)) as whole:
                made.backup(whole)
            if template is not None:  # migrations have changed since set-up: the next run has it
                keep_file(path, template)
    return path


@pytest.fixture(scope="session")
def django_db_modify_db_settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """SQLite as in production, a file: a database in memory is one connection and has no WAL.

    Whatever folder's test asks for the database first makes it for all that the process runs.
    """
    database = django_settings.DATABASES["default"]
    if "sqlite3" in database["ENGINE"]:
        path: Path = tmp_path_factory.mktemp("database") / "weir.sqlite3"
        shutil.copyfile(request.getfixturevalue("migrated_file"), path)
        database.setdefault("TEST", {})["NAME"] = str(path)
        TransactionTestCase._fixture_teardown = lambda _: _empty_tables()


def _empty_tables() -> None:
    """What Django does after a test that commits, but for content types and permissions: it makes these anew each time,
    which takes a quarter of a second."""
    from django.contrib.auth.models import Permission
    from django.contrib.contenttypes.models import ContentType

    tables = set(connection.introspection.django_table_names(only_existing=True, include_views=False))
    emptied = tables - {model._meta.db_table for model in (ContentType, Permission)}
    connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), sorted(emptied)))


@pytest.fixture(scope="session")
def django_db_keepdb(request: pytest.FixtureRequest) -> bool:
    """The copy is taken as it is."""
    return "sqlite3" in django_settings.DATABASES["default"]["ENGINE"] or request.config.getvalue("reuse_db")


@pytest.fixture(scope="session")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an embedded broker that lives as long as the test session; see ``broker`` for an empty one."""
    with running_broker(tmp_path_factory.mktemp("broker")) as url:
        yield url


@pytest.fixture
def broker(embedded_broker: redis.Redis) -> redis.Redis:
    """A client of the embedded broker, emptied before and after the test."""
    return embedded_broker


@pytest.fixture
def embedded_broker(broker_url: str) -> Iterator[redis.Redis]:
    """The same, also where ``broker`` may be another one."""
    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
        yield client
        client.flushall()


@pytest.fixture(scope="session")
def with_jar(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Sees to it that a state folder has the Java channels, and that drivers find an archive of their classes."""
    folder = shared_folder(tmp_path_factory, DRIVER_FILES)
    driver_files.make(folder)

    def put(data_dir: Path) -> Path:
        with locked(folder):
            build.build(data_dir)
        return data_dir

    return put


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    return embedded.free_port()


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty state folder, which ``WEIR_DATA_DIR`` names during the test."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("WEIR_DATA_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets; the test is skipped where it is absent."""
    folder = Path(os.environ.get("WEIR_SHARED_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("the public data sets are not here; WEIR_SHARED_DATA names their folder")
    return folder


@pytest.fixture
def migrated(transactional_db: None) -> Iterator[Callable[[list[tuple[str, str]]], Any]]:
    """Moves tables to migrations and gives the models that these know; in the end all are as they were."""
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    def to(targets: list[tuple[str, str]]) -> Any:
        MigrationExecutor(connection).migrate(targets)
        return MigrationExecutor(connection).loader.project_state(targets).apps

    yield to
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())
