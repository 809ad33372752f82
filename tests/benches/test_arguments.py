"""Bad input to measurements: told before anything starts, with what is wrong, and never as a traceback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.benches import profiles, reuse_traces, schedules, what_if
from tests.benches.__main__ import main as bench

Main = Callable[[Sequence[str]], int]


@pytest.mark.parametrize(("main", "arguments", "words"), [
    (schedules.main, ["--rates", "50", "0"], "--rates: 0 is not a number above 0"),
    (schedules.main, ["--rates", "inf"], "--rates: inf is not a number above 0"),
    (schedules.main, ["--rates", "fast"], "--rates: fast is not a number above 0"),
    (schedules.main, ["--sizes", "125", "0"], "--sizes: 0 is not a whole number from 1"),
    (schedules.main, ["--repeat", "0"], "--repeat: 0 is not a whole number from 1"),
    (schedules.main, ["--on-spark", "--slots", "0"], "--slots: 0 is not a whole number from 1"),
    (schedules.main, ["--on-spark", "--fractions", "-1"], "--fractions: -1 is not a number above 0"),
    (schedules.main, ["--on-spark", "--profiles", "nowhere.csv"], "--profiles: there is no file nowhere.csv"),
    (profiles.main, ["--repeat", "0"], "--repeat: 0 is not a whole number from 1"),
    (reuse_traces.main, ["--slots", "1.5"], "--slots: 1.5 is not a whole number from 1"),
    (what_if.main, ["--questions", "0"], "--questions: 0 is not a whole number from 1"),
])
def test_what_cannot_be_measured_with_is_told(
    main: Main, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as done:
        main(arguments)
    assert done.value.code == 2 and words in capsys.readouterr().err


def test_the_command_tells_what_is_wrong_with_a_file_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Before a slot or a broker is started, where it is one for Spark."""
    file = tmp_path / "performance_model.csv"
    file.write_text("task,threads,peak_rate_tuples_s,cpu_pct,mem_pct\npi_viete,1,-5,10,10\n")
    (tmp_path / "dags.json").write_text("{}")
    for arguments in (["--published", str(tmp_path)], ["--on-spark", "--profiles", str(file)]):
        monkeypatch.setattr("sys.argv", [])  # it is put there for the bench's own parser
        assert bench(["schedules", *arguments, "--out", str(tmp_path / "out.json")]) == 1
        stderr = capsys.readouterr().err
        assert "on line 2: " in stderr and "-5 events/s" in stderr and "Correct the places" in stderr
        assert not (tmp_path / "out.json").exists()
