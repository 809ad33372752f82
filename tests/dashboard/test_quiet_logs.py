"""What anybody can have logged by requests that are refused: little, and no more for asking often."""

from __future__ import annotations

import logging
import logging.config
from pathlib import Path

import pytest
from django.test import Client

from dashboard.config.site_logs import Quietly, logging_config


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """What the log's own handler writes, into a file."""
    config = logging_config(level="INFO")
    assert config["handlers"]["stderr"]["filters"] == ["quietly"]
    handler = logging.FileHandler(tmp_path / "log")
    handler.addFilter(Quietly())
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    before, root.handlers = root.handlers, [handler]
    yield tmp_path / "log"
    root.handlers = before
    handler.close()


@pytest.mark.parametrize("host", ["evil.example", "x" * 5_000 + ".example", "a_b", "x\"y.example"])
def test_a_wrong_host_is_one_short_line_however_often(db: None, written: Path, host: str) -> None:
    for _ in range(20):
        assert Client(raise_request_exception=False).get("/", headers={"host": host}).status_code == 400
    lines = written.read_text().splitlines()
    assert len([line for line in lines if "django.security" in line]) == 1
    assert sum(map(len, lines)) < 600, lines


def test_the_next_line_says_how_many_there_were_and_others_pass(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, moments = logging.getLogger("django.security.DisallowedHost"), iter([0.5, 0.5, 1.0, 2.0, 61.0, 61.0])
    monkeypatch.setattr("dashboard.config.site_logs.time.monotonic", lambda: next(moments))
    for number in range(4):
        log.error("refused %s", number)
    logging.getLogger("weir").error("something else")
    lines = [line.split(" ", 2)[2] for line in written.read_text().splitlines()]
    assert lines == ["refused 0", "refused 3 (2 more since)", "something else"]


def test_a_line_holds_nothing_that_a_terminal_obeys() -> None:
    """A path that anybody asks for while the database is away, or an answer of another system, may say anything."""
    formatter = logging.config.dictConfigClass({"version": 1}).configure_formatter(
        dict(logging_config(level="INFO")["formatters"]["logfmt"]))
    record = logging.LogRecord("weir", logging.ERROR, "", 0, "at /x\x1b[2J\r\nlevel=info ü\u202e東京", (), None)
    line = formatter.format(record)
    assert "at /x\ufffd[2J\ufffd\\nlevel=info ü\ufffd東京" in line and "\n" not in line
