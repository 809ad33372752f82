"""What a command takes is told at once, and nothing is set up for it."""

from __future__ import annotations

import shutil

import pytest

from .checkout import Checkout
from .waiting import ROOT


@pytest.mark.parametrize("words", [(), ("--help",), ("help",)])
def test_help_needs_no_set_up(checkout: Checkout, words: tuple[str, ...]) -> None:
    done = checkout.run(*words)
    assert done.returncode == 0
    assert "./weir up" in done.stdout
    assert checkout.calls() == []


@pytest.fixture
def with_pages(checkout: Checkout) -> Checkout:
    """The checkout, with what it prints as help."""
    (checkout.root / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "commands.md", checkout.root / "docs" / "commands.md")
    return checkout


@pytest.mark.parametrize(("words", "expected"), [
    (("bench", "--help"), "handover"), (("bench", "-h"), "handover"),
    (("bench", "handover", "--help"), "how long an output stands still"), (("bench",), "handover"),
    (("up", "--help"), "--slots SLOTS"), (("up", "--port", "1", "-h"), "--slots SLOTS"), (("test", "--help"), "--long"),
    (("agent", "--help"), "--node NODE"), (("spark-cluster", "-h"), "--workers"), (("backup", "--help"), "--replace"),
    (("secret", "--help"), "--data-dir"), (("manage", "secret", "set", "--help"), "--data-dir"),
    (("profile", "measure", "--help"), "--threads"), (("dbshell", "--help"), "more about dbshell"),
    (("manage",), "submit            Submit a dataflow (JSON or YAML; - reads"), (("manage", "help"), "List the nodes"),
    (("manage", "--help"), "List the nodes"), (("manage", "help", "secret"), "--data-dir"),
])
def test_help_of_a_command_needs_no_set_up_and_writes_nothing(
    with_pages: Checkout, words: tuple[str, ...], expected: str
) -> None:
    checkout = with_pages
    before = sorted(checkout.root.rglob("*"))
    done = checkout.run(*words)
    assert done.returncode == 0 and expected in done.stdout + done.stderr and "##" not in done.stdout
    assert "./weir up" in done.stdout or "usage: " in done.stdout
    assert (checkout.calls(), sorted(checkout.root.rglob("*"))) == ([], before)
    done = checkout.run("bench", "nothing", "--help")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_help_that_only_django_knows_is_asked_of_it_where_it_is_installed(with_pages: Checkout) -> None:
    with_pages.run("check")
    made = with_pages.calls()
    assert with_pages.run("dbshell", "--help").stdout == "ran manage.py dbshell --help\n"
    assert with_pages.run("manage", "help", "--commands").stdout == "ran manage.py help --commands\n"
    (with_pages.root / "requirements.lock").write_text("another\n")
    done = with_pages.run("dbshell", "--help")
    assert "./weir up" in done.stdout and "dbshell" in done.stderr
    assert with_pages.calls() == made, "nothing is installed for a question"


def test_what_looks_like_a_question_behind_a_double_dash_is_none(with_pages: Checkout) -> None:
    assert with_pages.run("submit", "--", "--help").stdout == "ran manage.py submit -- --help\n"
