"""What `./weir bench prices` makes of what it metered: an estimate is never held against itself."""

from __future__ import annotations

from tests.benches.prices import _print_later


def entry(name: str, *, estimated: float, measured: float, basis: str) -> dict:
    return {"dataflow": name, "later": {"estimated": estimated, "measured": measured, "rests on": basis}}


def test_what_was_not_metered_for_long_enough_is_held_to_nothing(capsys) -> None:
    assert _print_later([entry("a", estimated=0.1, measured=0.1, basis="estimated")])
    printed = capsys.readouterr().out
    assert "1 of 1 were not metered" in printed and "within" not in printed


def test_estimates_are_held_to_what_was_metered(capsys) -> None:
    assert not _print_later([
        entry("a", estimated=0.1, measured=0.1, basis="estimated"),
        entry("b", estimated=0.1, measured=0.12, basis="measured"),
        entry("c", estimated=0.1, measured=0.3, basis="measured"), {"dataflow": "d"}])
    printed = capsys.readouterr().out
    assert "1 of 3 were not metered" in printed
    assert "1 of 2 estimates are within 30% of what was metered later" in printed
