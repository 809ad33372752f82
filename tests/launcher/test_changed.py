"""`./weir test --changed`: what a change reaches, by made-up imports and by those of the project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import changed
from tests.architecture.sources import project_files
from tests.launcher.test_run import run_tests

from .waiting import ROOT

IMPORTERS = {
    "scheduler.pairs": {"scheduler.planning"},
    "scheduler.planning": {"tests.scheduler.test_planning", "tests.building", "scheduler"},
    "tests.building": {"tests.pages.conftest", "tests.scheduler.test_pairs"},
    "dashboard.jobs": {"tests.dashboard.test_jobs"},
}
ARCHITECTURE = {changed.ALWAYS: 0}


@pytest.mark.parametrize(("path", "reached"), [
    ("scheduler/planning.py", {
        "tests/scheduler/test_planning.py": 1, "tests/scheduler/test_pairs.py": 2, "tests/pages": 2}),
    ("scheduler/pairs.py", {
        "tests/scheduler/test_planning.py": 2, "tests/scheduler/test_pairs.py": 3, "tests/pages": 3}),
    ("tests/scheduler/test_pairs.py", {"tests/scheduler/test_pairs.py": 0}),
    ("tests/pages/conftest.py", {"tests/pages": 0}),
    ("tests/pages/table.txt", {"tests/pages": 0}),
    ("dashboard/that_nobody_imports.py", {"tests/dashboard/test_jobs.py": 1}),  # as its package
    ("dashboard/models.json", {"tests/dashboard/test_jobs.py": 1}),
    ("static/app.css", {"tests/pages": 0, "tests/browser": 0}),
    ("README.md", {}),
    ("pyproject.toml", {"tests": 0}),
    ("workers/deleted.py", {"tests": 0}),
])
def test_a_change_reaches_who_imports_it_and_what_nobody_imports_reaches_all(path: str, reached: dict) -> None:
    assert changed.reached_by([path], IMPORTERS) == reached | ARCHITECTURE


def test_of_several_changes_the_nearest_counts() -> None:
    reached = changed.reached_by(["scheduler/pairs.py", "scheduler/planning.py", "static/app.css"], IMPORTERS)
    assert (reached["tests/scheduler/test_planning.py"], reached["tests/pages"]) == (1, 0)


@pytest.fixture(scope="module")
def importers() -> dict[str, set[str]]:
    """Those of the project."""
    return changed.importers_of_all()


@pytest.mark.parametrize(("path", "reached"), [
    ("scheduler/pairs.py", "tests/scheduler/test_planning.py"),
    ("workers/library/select.py", "tests/library/test_select.py"),
    ("workers/library/select.py", "tests/library/test_registry.py"),  # which loads families by their names
    ("workers/engine/agents/supervising/spare.py", "tests/engine/spark/test_spare.py"),  # by an agent that is a process
    ("dashboard/pages/bills.py", "tests/pages/test_bills.py"),  # by its address
    ("dashboard/api/bill_routes.py", "tests/browser/test_bills.py"),  # by a site that is a process
    ("workers/engine/channels/lua/commit.lua", "tests/engine/channels/test_played_redis.py"),
    ("templates/base.html", "tests/pages/test_every_page.py"),
])
def test_processes_registries_and_addresses_are_gone_through(
    path: str, reached: str, importers: dict[str, set[str]]
) -> None:
    assert reached in changed.nearest_first(changed.reached_by([path], importers))


def test_a_change_does_not_reach_what_knows_nothing_of_it(importers: dict[str, set[str]]) -> None:
    files = changed.nearest_first(changed.reached_by(["dashboard/bills/selectors.py"], importers))
    assert files and not [file for file in files if file.startswith(("tests/scheduler/model", "tests/library/"))]


def test_each_file_of_the_project_reaches_a_test_that_is_there(
    importers: dict[str, set[str]], pytestconfig: pytest.Config
) -> None:
    """Of modules the short run takes a sixteenth: they reach who imports them, other files what a table says."""
    modules, others = [], []
    for path in project_files():
        (modules if path.suffix == ".py" else others).append(str(path.relative_to(ROOT)))
    paths = [*others, *modules[:: 1 if pytestconfig.getoption("--long") else 16]]
    reached = {place for path in paths for place in changed.reached_by([path], importers)}
    assert [place for place in sorted(reached) if not (ROOT / place).exists()] == []


def test_whoever_starts_much_comes_later() -> None:
    files = changed.nearest_first({"tests/browser": 0, "tests/scheduler/test_planning.py": 1, "tests/launcher": 5})
    assert files[0] == "tests/scheduler/test_planning.py"
    assert files.index("tests/browser/test_bills.py") < files.index("tests/launcher/test_changed.py")


def test_what_is_changed_is_what_differs_from_where_the_branch_began_and_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(("git", "-C", str(tmp_path), *identity, *arguments), check=True, capture_output=True)

    def write(**files: str) -> None:
        for name, text in files.items():
            (tmp_path / name).write_text(text)

    git("init", "--initial-branch=main")
    write(kept="1", edited="1", committed="1", deleted="1")
    git("add", ".")
    git("commit", "-m", "first")
    git("switch", "-c", "work")
    write(committed="2")
    git("commit", "-a", "-m", "second")
    write(edited="2", new="1")
    (tmp_path / "deleted").unlink()
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    assert changed.changed_files() == ["committed", "deleted", "edited", "new"]
    assert changed.changed_files("HEAD") == ["deleted", "edited", "new"]
    with pytest.raises(SystemExit, match="no-such"):
        changed.changed_files("no-such")


def test_files_run_in_the_order_in_which_they_are_given_whatever_others_sort_them_by() -> None:
    """pytest-django would begin with what needs the database."""
    files = [str(ROOT / "tests" / file) for file in ("scheduler/test_errors.py", "dashboard/test_tidying.py")]
    done = subprocess.run(
        (sys.executable, str(ROOT / "tests" / "run.py"), *files, "--within=60", "--collect-only", "-q"),
        capture_output=True, text=True, timeout=300)
    collected = [line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line]
    assert list(dict.fromkeys(collected)) == ["tests/scheduler/test_errors.py", "tests/dashboard/test_tidying.py"]


def test_what_is_not_begun_in_time_is_skipped_and_says_so() -> None:
    first, second = (f"tests/launcher/test_changed.py::{test.__name__}" for test in (
        test_whoever_starts_much_comes_later, test_of_several_changes_the_nearest_counts))
    done = run_tests(str(ROOT / first), str(ROOT / second), "--within=0.000001")
    assert done.stdout.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"
    assert "without it all run" in done.stdout
