"""A process that writes history is killed at any moment: what it flushed is there, and coarser points agree with it."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from dashboard.config.environment import ROOT
from dashboard.history.history_store import DatabaseHistory
from scheduler.history.series import MINUTE, SECOND, TEN_SECONDS, Series

BEGIN_S = 1_800_000_000
LINES = [Series("task", f"t{number}", "rate_per_s") for number in range(300)]
# An hour goes by in about a second; each second's value is the second itself, of all series.
WRITER = f"""
import sys, django
django.setup()
from dashboard.history.history_store import DatabaseHistory
from scheduler.history.series import Series
lines = [Series("task", f"t{{number}}", "rate_per_s") for number in range({len(LINES)})]
history, at_s = DatabaseHistory(), int(sys.argv[1])
while True:
    history.append(at_s, dict.fromkeys(lines, float(at_s % 4096)))
    if at_s % 5 == 4:
        history.flush()
        print(at_s, flush=True)
    if at_s % 60 == 0:
        history.tidy(at_s)
    at_s += 1
"""


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("DATABASE_URL" in os.environ, reason="the writer opens the test's SQLite file")
def test_no_kill_loses_what_was_flushed_or_breaks_a_window(tmp_path: Path) -> None:
    (tmp_path / "weir.sqlite3").symlink_to(connection.settings_dict["NAME"])
    environment = os.environ | {
        "WEIR_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "dashboard.config.settings"}
    chance, at_s, written = random.Random(5), BEGIN_S, []
    for _ in range(6):
        writer = subprocess.Popen(
            (sys.executable, "-c", WRITER, str(at_s)), cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        flushed = at_s - 1
        for _ in range(chance.randrange(100, 700)):
            flushed = int(writer.stdout.readline())
        writer.kill()
        flushed = max([flushed, *(int(line) for line in writer.stdout.read().split())])
        writer.wait()
        written.append((at_s, flushed))
        at_s = flushed + chance.randrange(8, 2_000)
    history = DatabaseHistory()
    for moment_s in (at_s, at_s + 100_000):
        history.tidy(moment_s)
        for begin_s, end_s in written:
            check(history, begin_s, end_s, now_s=moment_s)


def check(history: DatabaseHistory, begin_s: int, end_s: int, *, now_s: int) -> None:
    """Every point of the coarser grains that lies within a run of one writer is the mean of its seconds."""
    for line in LINES[::97]:
        for grain in (SECOND, TEN_SECONDS, MINUTE):
            if end_s < now_s - grain.keep_s:
                continue
            begin = max(begin_s, now_s - grain.keep_s)
            points = history.read([line], grain, begin_s=begin, end_s=end_s)[line]
            for point_s, value in zip(points.times_s.tolist(), points.values.tolist(), strict=True):
                if begin <= point_s and point_s + grain.step_s <= end_s:
                    assert not math.isnan(value), (grain, point_s)
                    seconds = [float(second % 4096) for second in range(point_s, point_s + grain.step_s)]
                    assert value == pytest.approx(sum(seconds) / len(seconds), rel=2**-11, abs=0.6), (grain, point_s)
