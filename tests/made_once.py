"""What many tests begin with is made once a process: for the next test that begins so, its rows are written again.

A test of the site pays for what it asks the database, and most of that is what comes before the test: people, a
dataflow, approvals. What a function of ``@made_once`` writes depends on the rows that it finds, its arguments, the
settings and what the test has replaced. Where all that is as it was in an earlier test, the statements that changed
rows are repeated without Django, and what was returned is returned again. Moments are moved to the present test.

As soon as a test writes by itself, all else is made for it anew. So it is in tests that commit, on PostgreSQL, with a
broker, where statements are counted, and with ``--long``.
"""

from __future__ import annotations

import io
import itertools
import pickle
import re
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import partial, wraps
from importlib import import_module
from pathlib import PurePath
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, TypeVar

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import Model
from django.utils import timezone

AWAY = "redis://127.0.0.1:1/0"  # nobody listens there: what is made needs no broker, and leaves nothing in one
# What tests replace most, each in its own way. Who asks none of those that a test has replaced may be repeated.
READERS = frozenset({"channel_blocks", "event_bytes", "newest_events", "read_live", "waiting_events"})
MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}")
NEAR = timedelta(days=40)  # of the test's begin: how far away lies what was reckoned from it
DEEPEST = 8  # how far values within values are read
Made = TypeVar("Made")


class NotToBeNamed(TypeError):
    """A value that cannot be told from another one of the next test."""


class Second(NamedTuple):
    """A whole second within the test, since its begin."""

    since_begin: int


class Statement(NamedTuple):
    """One that changed rows; a ``datetime`` or ``Second`` among its parameters is a moment that was the test's own."""

    sql: str
    bare_sql: str  # as SQLite takes it
    rows: list[list[Any]]  # parameters; several rows where it was made for many at once
    many: bool


@dataclass(frozen=True)
class Repeatable:
    """What one call wrote, sent and returned; ``moments``: those within the test, in order."""

    number: int  # of the call, in this process
    statements: list[Statement]
    moments: list[datetime]
    on_commit: list[tuple]
    answer: bytes
    asked: frozenset[str]  # of READERS


@dataclass
class Noting:
    """What a call that is being made has written and asked so far."""

    statements: list[tuple[str, list, bool]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)


@dataclass
class Beginning:
    """How the present test has begun, as long as nothing has written but what is made once.

    A moment within a test is kept as it was in the test that first had it: ``present`` gives those of this test for
    those that are kept, ``kept`` the other way round.
    """

    began: datetime
    calls: Hashable  # the last that was made, which stands for those before; None where something else has written
    changed: int  # rows that the connection had changed after it
    savepoints: tuple[str, ...]
    present: dict[datetime, datetime] = field(default_factory=dict)
    kept: dict[datetime, datetime] = field(default_factory=dict)
    noting: list[Noting] = field(default_factory=list)  # one within the other

    def is_as_made(self) -> bool:
        """Whether nothing else has written since, and nobody looks at single statements."""
        here = tuple(connection.savepoint_ids)
        return (
            self.calls is not None and connection.in_atomic_block and not connection.force_debug_cursor
            and connection.connection is not None and connection.connection.total_changes == self.changed
            and here[:len(self.savepoints)] == self.savepoints
            and len(connection.execute_wrappers) == len(self.noting))

    def goes_on(self, calls: Hashable) -> None:
        """The rows are those that this call has left."""
        self.calls = calls
        self.changed, self.savepoints = connection.connection.total_changes, tuple(connection.savepoint_ids)

    def to_keep(self, moment: datetime, moments: set[datetime], until: datetime) -> datetime | None:
        """A moment as it is kept; None where it is not the test's own."""
        if moment in self.kept or self.began <= moment <= until:
            whole = self.kept.setdefault(moment, moment)
            self.present.setdefault(whole, moment)
            moments.add(whole)
            return whole
        if timezone.now is _now and abs(moment - self.began) < NEAR:
            return moment - self.began + FAR
        return None

    def as_present(self, whole: datetime) -> datetime:
        """What is kept, as a moment of this test."""
        return self.began + (whole - FAR) if whole < LATEST_FAR else self.present[whole]


FAR = datetime(1970, 6, 1, tzinfo=UTC)  # stands for the begin of a test in moments before and after it
LATEST_FAR = FAR + NEAR
KEPT: dict[Hashable, Repeatable] = {}  # what was used last at the end
MOST_KEPT = 300
_numbers = itertools.count()
_test: Beginning | None = None
_patches: pytest.MonkeyPatch | None = None
_now = timezone.now


def begin(*, anew: bool) -> None:
    """The next test has been given the database; ``anew``: nothing is repeated for it."""
    global _test
    _test = None
    if not anew and connection.vendor == "sqlite" and connection.in_atomic_block:
        bare = connection.connection
        # A plan that two tests have been given may have been computed again by one of them.
        import_module("dashboard.schedules.promises")._promise.cache_clear()
        # Ids go on where a test before has committed.
        ids = bare.execute("SELECT name, seq FROM sqlite_sequence ORDER BY name").fetchall()
        _test = Beginning(datetime.now(UTC), tuple(ids), bare.total_changes, tuple(connection.savepoint_ids))


def replaces_with(patches: pytest.MonkeyPatch) -> None:
    """The next test has been given what it replaces things with."""
    global _patches
    _patches = patches


def made_once(make: Callable[..., Made]) -> Callable[..., Made]:
    """Make it for the first test that asks for it; repeat it for each that has begun in the same way."""
    @wraps(make)
    def made(*args: Any, **more: Any) -> Made:
        test = _test
        if test is None or not test.is_as_made():
            return make(*args, **more)
        try:
            begun = (test.calls, make.__module__, make.__qualname__, named(args), named(more), surroundings())
        except NotToBeNamed:
            return make(*args, **more)
        readers = replaced_readers()
        read = _with_readers(begun, readers)  # where it asks what the test has replaced
        if read in KEPT:
            begun = read
        elif begun not in KEPT or KEPT[begun].asked & readers:
            return _noted(test, begun, read, partial(make, *args, **more))
        KEPT[begun] = repeatable = KEPT.pop(begun)
        answer = _repeated(test, repeatable)
        test.goes_on(repeatable.number)
        return answer

    return made


@contextmanager
def as_before() -> Iterator[None]:
    """What is written inside is taken back: afterwards the test is where it was."""
    test = _test
    begun = None if test is None or not test.is_as_made() else test.calls
    yield
    if begun is not None:
        test.goes_on(begun)


def _noted(test: Beginning, begun: Hashable, read: Hashable | None, make: Callable[[], Made]) -> Made:
    savepoints, sent = tuple(connection.savepoint_ids), len(connection.run_on_commit)
    noting, taken_back = Noting(), False

    def note(execute: Callable, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        nonlocal taken_back
        answer = execute(sql, params, many, context)
        taken_back = taken_back or sql.startswith("ROLLBACK")
        if not sql.startswith(("SELECT", "SAVEPOINT", "RELEASE", "PRAGMA")):
            noting.statements.append((sql, list(params) if many else [params or ()], many))
        return answer

    test.noting.append(noting)
    try:
        with connection.execute_wrapper(note), _readers_noted(noting.asked):
            answer = make()
    finally:
        test.noting.pop()
    if noting.asked & replaced_readers():
        begun = read
    if begun is None or taken_back or tuple(connection.savepoint_ids) != savepoints:
        test.calls = None
        return answer
    moments: set[datetime] = set()
    until = datetime.now(UTC)

    def stored(value: Any) -> Any:
        if type(value) is int and test.began.timestamp() - 1 < value <= until.timestamp():
            return Second(value - int(test.began.timestamp()))
        if isinstance(value, str) and MOMENT.fullmatch(value):
            return test.to_keep(datetime.fromisoformat(value).replace(tzinfo=UTC), moments, until) or value
        return value

    with connection.cursor() as cursor:
        written = [
            Statement(sql, cursor.cursor.convert_query(sql), [[*map(stored, row)] for row in rows], many)
            for sql, rows, many in noting.statements]
    answered = io.BytesIO()
    _Keeping(answered, lambda moment: test.to_keep(moment, moments, until)).dump(answer)
    KEPT[begun] = kept_call = Repeatable(
        next(_numbers), written, sorted(moments), [rest for _, *rest in connection.run_on_commit[sent:]],
        answered.getvalue(), frozenset(noting.asked))
    if len(KEPT) > MOST_KEPT:
        del KEPT[next(iter(KEPT))]
    test.goes_on(kept_call.number)
    return answer


def _repeated(test: Beginning, made: Repeatable) -> Any:
    new = [moment for moment in made.moments if moment not in test.present]
    first = max([datetime.now(UTC), *test.present.values()])
    for number, moment in enumerate(new, 1):  # in their order; to write them takes longer than a microsecond each
        present = first + timedelta(microseconds=number)
        test.present[moment], test.kept[present] = present, moment

    def now(value: Any) -> Any:
        if isinstance(value, Second):
            return int(min(test.began.timestamp() + value.since_begin, datetime.now(UTC).timestamp()))
        return str(test.as_present(value).replace(tzinfo=None)) if isinstance(value, datetime) else value

    for statement in made.statements:
        rows = [[*map(now, row)] for row in statement.rows]
        if statement.many:
            connection.connection.executemany(statement.bare_sql, rows)
        else:
            connection.connection.execute(statement.bare_sql, rows[0]).fetchall()
        for outer in test.noting:
            outer.statements.append((statement.sql, rows, statement.many))
    for outer in test.noting:
        outer.asked |= made.asked
    connection.run_on_commit += [(set(connection.savepoint_ids), *rest) for rest in made.on_commit]
    return _Giving(io.BytesIO(made.answer), test.as_present).load()


@contextmanager
def _readers_noted(names: set[str]) -> Iterator[None]:
    jobs = import_module("dashboard.jobs")
    readers = {name: getattr(jobs, name) for name in READERS}

    def noted(name: str) -> Callable:
        def read(*args: Any, **more: Any) -> Any:
            names.add(name)
            return readers[name](*args, **more)

        return read

    for name in READERS:
        setattr(jobs, name, noted(name))
    try:
        yield
    finally:
        for name, reader in readers.items():
            setattr(jobs, name, reader)


class _Keeping(pickle.Pickler):
    def __init__(self, file: io.BytesIO, keep: Callable[[datetime], datetime | None]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.keep = keep

    def persistent_id(self, value: Any) -> datetime | None:
        is_moment = type(value) is datetime and value.tzinfo is not None and value.microsecond
        return self.keep(value) if is_moment else None


class _Giving(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, present: Callable[[datetime], datetime]) -> None:
        super().__init__(file)
        self.present = present

    def persistent_load(self, whole: datetime) -> datetime:
        return self.present(whole)


# What the rows depend on, as values that can be compared -------------------------------------------------------------
def surroundings() -> Hashable:
    """Settings that are not the project's, and what the test has replaced, but for readers."""
    if settings.REDIS_URL != AWAY:
        raise NotToBeNamed(settings.REDIS_URL)
    changed: dict[str, Any] = {}
    holder = settings._wrapped
    while hasattr(holder, "default_settings"):
        changed = {name: value for name, value in vars(holder).items() if name.isupper()} | changed
        holder = holder.default_settings
    return named(changed), tuple(
        (named(target), name, named(getattr(target, name, None))) for target, name in _replaced()
        if not (name in READERS and target is sys.modules["dashboard.jobs"])), tuple(
        (name, named(items.get(name))) for items, name, _ in (_patches._setitem if _patches else ()))


def _with_readers(begun: Hashable, names: set[str]) -> Hashable | None:
    jobs = sys.modules["dashboard.jobs"]
    try:
        return begun, tuple((name, named(getattr(jobs, name))) for name in sorted(names))
    except NotToBeNamed:
        return None


def replaced_readers() -> set[str]:
    return {name for target, name in _replaced() if target is sys.modules["dashboard.jobs"] and name in READERS}


def _replaced() -> list[tuple[object, str]]:
    return [(target, name) for target, name, _ in _patches._setattr] if _patches else []


def named(value: Any, depth: int = 0) -> Hashable:
    """A value's name, which equal values have in common in all tests of the process.

    Raises
    ------
    NotToBeNamed
        What it stands for cannot be read off it.
    """
    if depth > DEEPEST:
        raise NotToBeNamed(type(value))
    name = partial(named, depth=depth + 1)
    match value:
        case None | str() | bytes() | bool() | int() | float() | date() | timedelta() | Enum() | PurePath() | type():
            return type(value), value
        case list() | tuple():
            return type(value), tuple(map(name, value))
        case set() | frozenset():
            return type(value), frozenset(map(name, value))
        case dict():
            return dict, tuple((name(key), name(item)) for key, item in value.items())
        case ModuleType():
            return value.__name__
        case MethodType():
            return MethodType, name(value.__func__), name(value.__self__)
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return value.__code__, name(cells), name(value.__defaults__), name(value.__kwdefaults__)
    if isinstance(value, Model):
        return value._meta.label, value.pk
    if is_dataclass(value):
        return type(value), tuple(name(getattr(value, part.name)) for part in fields(value))
    if hasattr(value, "__dict__") and type(value).__module__.startswith(("dashboard.", "scheduler.", "tests.")):
        return type(value), name(vars(value))
    raise NotToBeNamed(type(value))
