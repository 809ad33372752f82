"""Calibration: a minute, once, when the node is calm; kept for its class of machine, and left off by whoever stops."""

from __future__ import annotations

from pathlib import Path

from workers.engine.measuring.calibration import LASTS_MS, Calibration


class Looked:
    """A core that is looked at."""

    def __init__(self, core: int) -> None:
        self.over = False

    def __enter__(self) -> Looked:
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True

    def mean(self) -> float:
        return 12.5


def calibration(folder: Path, *, machine: str = "a class") -> tuple[Calibration, list[Looked]]:
    looks: list[Looked] = []

    def look(core: int) -> Looked:
        looks.append(Looked(core))
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
    calibrated.turn(10 * LASTS_MS, is_calm=True)
    assert len(looks) == 1


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
