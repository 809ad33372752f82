"""`./weir bench NAME` finds each bench that is listed, and each tells what it takes."""

from __future__ import annotations

from importlib import import_module

import pytest

from .__main__ import NAMES, main, modules


def test_every_bench_that_is_listed_tells_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(modules()) == len(NAMES.read_text().splitlines())
    for name, module in modules().items():
        with pytest.raises(SystemExit) as done:
            import_module(module).main(["--help"])
        assert (done.value.code, name) == (0, name)
        assert capsys.readouterr().out.count("--") > 1, name


def test_a_bench_that_is_not_listed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing"]) == 1
    assert capsys.readouterr().err == "weir: There is no bench 'nothing'. `./weir bench` names them.\n"
