"""Calibration: a minute, once, when the node is calm; kept for its class of machine, and left off by whoever stops.
Then cores are watched minute by minute."""

from __future__ import annotations

from pathlib import Path

from workers.engine.measuring.calibration import LASTS_MS, WATCHES_EVERY_S, Calibration
from workers.engine.measuring.speed import EVERY_S


class Looked:
    """A core that is looked at."""

    def __init__(self, every_s: float, mean: float) -> None:
        self.over, self.every_s, self._mean = False, every_s, mean

    def __enter__(self) -> Looked:
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True

    def mean(self) -> float:
        return self._mean


def calibration(folder: Path, *, machine: str = "a class") -> tuple[Calibration, list[Looked]]:
    looks: list[Looked] = []

    def look(core: int, every_s: float) -> Looked:
        looks.append(Looked(every_s, 12.5 - len(looks)))
        return looks[-1]

    return Calibration(folder / "n1" / "speed.json", machine=machine, look=look), looks


def test_it_begins_once_the_node_is_calm_and_lasts_a_minute(tmp_path):
    calibrated, looks = calibration(tmp_path)
    calibrated.turn(0, is_calm=False)
    assert (looks, calibrated.left_s, calibrated.speed) == ([], None, None)
    calibrated.turn(1_000, is_calm=True)
    assert calibrated.left_s == LASTS_MS // 1000
    calibrated.turn(31_000, is_calm=False)
    assert calibrated.left_s == 30 and not looks[0].over, "what begins meanwhile does not end it"
    calibrated.turn(1_000 + LASTS_MS, is_calm=True)
    assert (calibrated.left_s, calibrated.speed, looks[0].over) == (None, 12.5, True)
    assert [look.every_s for look in looks] == [EVERY_S]
    assert calibrated.report() == {"speed": 12.5, "calibrating_s": None, "speed_now": 12.5}


def test_once_it_is_calibrated_each_minute_says_how_fast_cores_are(tmp_path):
    first, _ = calibration(tmp_path)
    first.turn(0, is_calm=True)
    first.turn(LASTS_MS, is_calm=True)
    later, looks = calibration(tmp_path)
    looks.append(Looked(EVERY_S, 0.0))  # so that what it finds is slower than what was calibrated
    later.turn(0, is_calm=False)
    assert later.report() == {"speed": 12.5, "calibrating_s": None, "speed_now": None}
    later.turn(LASTS_MS, is_calm=False)
    later.turn(2 * LASTS_MS, is_calm=False)
    assert later.report() == {"speed": 12.5, "calibrating_s": None, "speed_now": 11.5}
    assert [look.every_s for look in looks[1:]] == [WATCHES_EVERY_S] and not looks[1].over
    later.stop()
    assert looks[1].over and calibration(tmp_path)[0].speed == 12.5


def test_a_later_start_knows_it_unless_the_machine_is_another(tmp_path):
    first, _ = calibration(tmp_path)
    first.turn(0, is_calm=True)
    first.turn(LASTS_MS, is_calm=True)
    assert calibration(tmp_path)[0].speed == 12.5
    assert calibration(tmp_path, machine="another")[0].speed is None


def test_one_that_is_cut_short_is_begun_anew_by_the_next_start(tmp_path):
    calibrated, looks = calibration(tmp_path)
    calibrated.turn(0, is_calm=True)
    calibrated.stop()
    assert looks[0].over and calibrated.left_s is None
    assert calibration(tmp_path)[0].speed is None
