"""The same tests on PostgreSQL: on a cluster made for them, in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.config.environment import ROOT
from tests.postgresql import cluster

WITHOUT_DATABASE = ("test_settings.py", "test_live_protocol.py")
# What locks rows, races for them and rolls back; the long run takes the whole site.
TRANSACTIONS = ("admins_at_once", "concurrency", "reservations", "transitions")
REFUSED_TEXTS = ("stored_texts",)  # by PostgreSQL alone
WHOLE_S = 2_400  # within which the whole site's tests end, beside others on slow cores


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    """A cluster of these tests' own."""
    with cluster() as address:
        yield address


HERE = Path(__file__).parent
PROFILES = HERE.parent / "profiles"
ON_ITS_OWN = pytest.mark.skipif("DATABASE_URL" in os.environ, reason="this run is already on DATABASE_URL's database")


@pytest.mark.broker
@ON_ITS_OWN
def test_transactions_hold_on_postgresql(database_url: str):
    files = [HERE / f"test_{name}.py" for name in (*TRANSACTIONS, *REFUSED_TEXTS)] + [PROFILES / "test_hindrances.py"]
    assert passed_on(database_url, *map(str, files)) > 20


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.timeout(WHOLE_S + 20)
@ON_ITS_OWN
def test_the_sites_tests_pass_on_postgresql(database_url: str):
    left_out = (f"--ignore={HERE / name}" for name in (Path(__file__).name, *WITHOUT_DATABASE))
    assert passed_on(database_url, str(HERE), str(PROFILES), *left_out, within_s=WHOLE_S) > 200


def passed_on(database_url: str, *arguments: str, within_s: float = 880) -> int:
    """How many tests pass in a process of their own; none may fail."""
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments),
        cwd=ROOT, env=os.environ | {"DATABASE_URL": database_url}, capture_output=True, text=True, timeout=within_s)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return int(re.search(r"(\d+) passed", done.stdout)[1])
