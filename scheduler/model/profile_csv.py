"""Profiles as CSV: one row a measured point, read with the place of every mistake, written so that it reads back."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from itertools import islice

from .errors import InvalidProfile, Problem
from .profile import Point, Profile

REQUIRED = ("task", "threads", "peak_rate_tuples_s", "cpu_pct", "mem_pct")
MOST_PROBLEMS = 100  # that one answer tells
# Beside them, where they are known; a file may leave any of these columns out.
OPTIONAL = (
    "origin", "idle_cpu_pct", "idle_mem_pct", "event_cpu_pct", "rough", "at_least", "version", "machine", "config",
    "static", "code")


# Python reads 1_000 and digits of any script as numbers, too; other programs do not.
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,30}\s*", re.ASCII)
_DECIMAL = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*", re.ASCII)


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _share(percent: str) -> float:
    if not _DECIMAL.fullmatch(percent):
        raise ValueError(percent)
    return float(Decimal(percent) / 100)


NUMBERS = {
    "threads": _whole, "peak_rate_tuples_s": _number, "cpu_pct": _share, "mem_pct": _share, "idle_cpu_pct": _share,
    "idle_mem_pct": _share, "event_cpu_pct": _share, "version": _whole,
}
COLUMNS = {  # of a point's fields
    "threads": "threads", "rate_per_s": "peak_rate_tuples_s", "cpu": "cpu_pct", "memory": "mem_pct",
    "idle_cpu": "idle_cpu_pct", "idle_memory": "idle_mem_pct",
    "event_cpu": "event_cpu_pct",
}
TRUTHS = {"": False, "0": False, "false": False, "1": True, "true": True}
MARKS = ("rough", "at_least", "static")


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """A profile as it stands in a file.

    ``rough``: the thread counts whose peak is less precise than was asked for. ``at_least``: those that sustained all
    that could be fed to them, and may sustain more. ``line``: where the entry begins in a file that was read.
    """

    profile: Profile
    rough: tuple[int, ...] = ()
    at_least: tuple[int, ...] = ()
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    point: Point
    origin: str
    marks: frozenset[str]


_Rows = dict[tuple[object, ...], list[_Row]]  # by what they are of


def read_profiles(text: str) -> tuple[Profile, ...]:
    """The profiles of a file alone, as `read_entries` reads them."""
    return tuple(entry.profile for entry in read_entries(text))


def read_entries(text: str) -> tuple[ProfileEntry, ...]:
    """Read profiles; rows of one task, config, version, code and machine make one.

    Parameters
    ----------
    text : str
        CSV with a header. CPU and memory are percent of one slot.

    Raises
    ------
    InvalidProfile
        Something cannot be read or cannot be; such places are in ``facts["problems"]``, with line and column: all of
        them, or the first hundred, for an answer of each place of a long file would be a hundred times as long.
    """
    reader = csv.DictReader(io.StringIO(text), strict=True)
    problems: list[Problem] = []
    rows: _Rows = {}
    try:
        header = tuple(name.strip() for name in reader.fieldnames or ())
        reader.fieldnames = header
        problems.extend(islice(_of_header(header), MOST_PROBLEMS))
        for row in reader if not problems else ():
            _take(row, reader.line_num, rows, problems)
            if len(problems) >= MOST_PROBLEMS:
                break
    except csv.Error as error:
        problems.append(_problem(reader.line_num + 1, f"The line is no CSV: {error}", "Correct the quotes."))
    entries = [] if problems else [entry for key, group in rows.items() if (entry := _entry(key, group, problems))]
    if not entries and not problems:
        problems.append(_problem(1, "The file holds no measured point", "Give one line for each."))
    require_none(problems)
    return tuple(entries)


def require_none(problems: Iterable[Problem]) -> None:
    """Raise ``InvalidProfile`` with all of these problems of a file, by their places, where there are any."""
    first = islice(problems, MOST_PROBLEMS)
    listed = sorted(first, key=lambda problem: (problem.line or 0, problem.column or 0))
    if listed:
        raise InvalidProfile(
            f"{len(listed)} problem{'s' if len(listed) > 1 else ''} in the profiles; the first, on line "
            f"{listed[0].line}: {listed[0].message}",
            remedy="Correct the places listed and import again; nothing was stored.",
            problems=[asdict(problem) for problem in listed],
        )


def column_of(text: str, name: str) -> int | None:
    """The number of a column of a file, from 1; None where it has none of that name."""
    header = [column.strip() for column in next(csv.reader(io.StringIO(text)), [])]
    return header.index(name) + 1 if name in header else None


def write_entries(entries: Iterable[ProfileEntry]) -> str:
    """The entries as CSV that `read_entries` reads back."""
    out = io.StringIO()
    writer = csv.DictWriter(out, (*REQUIRED, *OPTIONAL), lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        profile = entry.profile
        for point in profile.points:
            writer.writerow({
                "task": profile.task_type, "threads": point.threads, "peak_rate_tuples_s": repr(point.rate_per_s),
                "cpu_pct": _percent(point.cpu), "mem_pct": _percent(point.memory),
                "idle_cpu_pct": _percent(point.idle_cpu), "idle_mem_pct": _percent(point.idle_memory),
                "event_cpu_pct": "" if point.event_cpu is None else _percent(point.event_cpu),
                "rough": int(point.threads in entry.rough), "at_least": int(point.threads in entry.at_least),
                "origin": profile.origin, "version": profile.version, "machine": profile.machine,
                "config": profile.config, "static": int(profile.static), "code": profile.code,
            })
    return out.getvalue()


def _of_header(header: tuple[str, ...]) -> Iterator[Problem]:
    columns, seen_names = (*REQUIRED, *OPTIONAL), set[str]()
    for name in REQUIRED:
        if name not in header:
            yield _problem(1, f"There is no column {name}", f"The columns are {', '.join(REQUIRED)}.")
    for column, name in enumerate(header, 1):
        if name not in columns:
            yield _problem(
                1, f"Column {name!r} is not known", f"Leave it out; known are {', '.join(columns)}.", column)
        elif name in seen_names:
            yield _problem(1, f"There is a second column {name}", "Leave one of them out.", column)
        seen_names.add(name)


def _take(row: Mapping[str | None, str | None], line: int, rows: _Rows, problems: list[Problem]) -> None:
    """Read one row into ``rows``, or say in ``problems`` what is wrong with it."""
    before = len(problems)
    if None in row or None in row.values():
        problems.append(_problem(line, "The line has another number of values than the header", "Give one for each."))
        return
    values: dict[str, float] = {}
    for column, (name, text) in enumerate(row.items(), 1):
        if name in NUMBERS and (text or name in REQUIRED):
            try:
                values[name] = NUMBERS[name](text)
            except (ValueError, ArithmeticError):
                kind = "whole number of at most 30 digits" if NUMBERS[name] is _whole else "number"
                problems.append(_problem(line, f"{name} is {(text or '')[:60]!r}", f"Give a {kind}.", column))
        if name in MARKS and text not in TRUTHS:
            problems.append(_problem(line, f"{name} is {text!r}", "Give 0 or 1.", column))
        if name == "config" and text and not _is_object(text):
            problems.append(_problem(line, f"config is {text[:60]!r}", "Give a JSON object, or nothing.", column))
    task = (row["task"] or "").strip()
    if not task:
        problems.append(_problem(line, "The point belongs to no task", "Name the task type.", 1))
    if len(problems) > before:
        return
    point = Point(
        int(values["threads"]), values["peak_rate_tuples_s"], values["cpu_pct"], values["mem_pct"],
        values.get("idle_cpu_pct", 0.0), values.get("idle_mem_pct", 0.0), values.get("event_cpu_pct"))
    for name, wrong in point.problems():
        column = list(row).index(COLUMNS[name]) + 1
        problems.append(_problem(line, f"{task} has {wrong}", "Correct the point, or measure it again.", column))
    if len(problems) > before:
        return
    config, machine, code = (row.get(name) or "" for name in ("config", "machine", "code"))
    key = (task, config, int(values.get("version", 1)), machine, code)
    marks = frozenset(name for name in MARKS if TRUTHS[row.get(name) or ""])
    rows.setdefault(key, []).append(_Row(line, point, row.get("origin") or "", marks))


def _entry(key: tuple[object, ...], rows: list[_Row], problems: list[Problem]) -> ProfileEntry | None:
    task, config, version, machine, code = key

    def marked(name: str) -> tuple[int, ...]:
        return tuple(sorted(row.point.threads for row in rows if name in row.marks))

    try:
        profile = Profile(
            str(task), tuple(row.point for row in rows), config=str(config), version=int(str(version)),
            machine=str(machine), static=bool(marked("static")), origin=rows[0].origin, code=str(code),
        )
        return ProfileEntry(profile, rough=marked("rough"), at_least=marked("at_least"), line=rows[0].line)
    except InvalidProfile as error:
        # Lines are right one by one: it is the last of two for the same number of threads.
        first_lines: dict[int, int] = {}
        line = next((
            row.line for row in rows if first_lines.setdefault(row.point.threads, row.line) != row.line), rows[-1].line)
        problems.append(_problem(line, error.message, error.remedy))
        return None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _percent(share: float) -> str:
    return str(Decimal(repr(share)) * 100)


def _problem(line: int, message: str, remedy: str, column: int | None = None) -> Problem:
    return Problem("invalid_profile", message, remedy, line=line, column=column)
