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
# One of each that locks rows, races for them or rolls back; the long run takes the whole site.
TRANSACTIONS = (
    "test_admins_at_once.py::test_an_approval_in_the_moment_in_which_its_role_ends_does_not_count",
    "test_concurrency.py::test_two_submissions_of_one_name_at_once_store_one",
    "test_concurrency.py::test_of_overlapping_submissions_at_once_no_task_runs_twice_and_none_is_lost",
    "test_reservations.py::test_what_is_taken_back_does_not_come_to_a_slot_that_is_measured_on_meanwhile",
    "test_transitions.py::test_a_move_that_the_table_lacks_changes_nothing",
    "../profiles/test_hindrances.py::test_workers_that_find_a_trial_due_at_once_order_it_once")
REFUSED_TEXTS = "test_stored_texts.py"  # by PostgreSQL alone
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
    chosen = (str(HERE / name) for name in (*TRANSACTIONS, REFUSED_TEXTS))
    assert passed_on(database_url, *chosen) > len(TRANSACTIONS)


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
