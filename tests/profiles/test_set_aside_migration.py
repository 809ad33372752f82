"""Trials that were set aside before they kept their verdict get it back, and their figures are shown again."""

from __future__ import annotations

from django.utils import timezone

from tests.dashboard.building import make_world

BEFORE, AFTER = [("profiles", "0005_code_and_what_was_fed")], [("profiles", "0006_set_aside_and_shared")]


def test_what_was_set_aside_is_not_stable_and_has_not_failed(migrated) -> None:
    author = make_world().carla.pk
    old = migrated(BEFORE)
    sweep = old.get_model("profiles", "SweepRecord").objects.create(
        task_type="pi_viete", config="{}", version=1, feed=[], slot="n1/0", bounds={}, warm_up_s=1, seconds=1,
        author_id=author)
    errors = ("Not stable, and set aside when the sweep was tried again.", "No column x.", "")
    for number, error in enumerate(errors):
        old.get_model("profiles", "TrialRecord").objects.create(
            sweep=sweep, number=number, threads=1, rate_per_s=1, why="", error=error, stable=None if error else True,
            ended=timezone.now())
    trials = migrated(AFTER).get_model("profiles", "TrialRecord").objects.order_by("number")
    assert [(trial.stable, trial.set_aside, trial.error) for trial in trials] == [
        (False, True, ""), (None, False, "No column x."), (True, False, "")]
