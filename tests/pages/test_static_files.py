"""Static files: collected with hashes in their names, compressed, and kept by browsers for a year and more."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.test import Client, override_settings

from dashboard.core import static_files

MODULE = re.compile(r"""(?:\bfrom |\bimport\(|\bnew URL\()["'](\.{1,2}/[^"']+)["']""")


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``collectstatic`` fills."""
    folder = tmp_path_factory.mktemp("static")
    with override_settings(STATIC_ROOT=folder):
        call_command("collectstatic", verbosity=0, interactive=False, ignore_patterns=["build"])
    return folder


def test_every_module_names_files_that_are_there_with_their_hashes(collected: Path) -> None:
    modules = list((collected / "js").glob("*.js"))
    names = [(module, name) for module in modules for name in MODULE.findall(module.read_text())]
    assert len(modules) > 20 and len(names) > 40
    for module, name in names:
        assert re.search(r"\.[0-9a-f]{12}\.js$", name), f"{module.name} names {name} without a hash"
        assert (module.parent / name).resolve().exists(), f"{module.name} names {name}"


def test_plotly_is_sent_compressed_and_kept(collected: Path, settings: LazySettings, db: None) -> None:
    settings.STATIC_ROOT = collected
    [plotly] = (collected / "vendor" / "plotly").glob("plotly-basic.*.js")
    response = Client().get(f"/static/vendor/plotly/{plotly.name}", headers={"accept-encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip" and "immutable" in response.headers["Cache-Control"]
    assert int(re.search(r"max-age=(\d+)", response.headers["Cache-Control"])[1]) >= 365 * 24 * 3600
    sent = b"".join(response.streaming_content)
    assert gzip.decompress(sent) == plotly.read_bytes() and len(sent) < plotly.stat().st_size / 3


@pytest.fixture
def few_files(settings: LazySettings, tmp_path: Path) -> Path:
    """The folder of a project that has one static file."""
    settings.STATICFILES_DIRS, settings.STATIC_ROOT = [tmp_path / "project"], tmp_path / "static"
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.css").write_text("a {}")
    return tmp_path / "project"


def set_back(file: Path) -> None:
    """As a checkout of an earlier version leaves it."""
    file.write_text("b {}")
    os.utime(file, (0, 0))


@pytest.mark.parametrize("change", [
    set_back, Path.unlink, lambda file: file.rename(file.with_name("b.css")),
    lambda file: file.with_name("b.css").touch(),
], ids=["content", "gone", "name", "more"])
def test_files_are_collected_once_and_again_when_they_have_changed(
    few_files: Path, change: Callable[[Path], object]
) -> None:
    assert static_files.collect() and not static_files.collect()
    change(few_files / "a.css")
    assert static_files.collect() and not static_files.collect()


def test_who_is_killed_while_collecting_leaves_it_to_the_next(few_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert static_files.collect()
    (few_files / "a.css").write_text("b {}")
    monkeypatch.setattr(static_files, "call_command", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    for _ in range(2):  # as often as it is killed
        with pytest.raises(KeyboardInterrupt):
            static_files.collect()
    monkeypatch.undo()
    (few_files / "a.css").write_text("a {}")  # and though the files are again as they were collected once
    assert static_files.collect() and not static_files.collect()


def test_pages_name_hashed_files_where_they_are_collected_and_plain_ones_before(
    collected: Path, settings: LazySettings, tmp_path: Path, db: None
) -> None:
    for folder, name in ((collected, r"/static/js/app\.[0-9a-f]{12}\.js"), (tmp_path, r"/static/js/app\.js")):
        settings.STATIC_ROOT = folder
        page = Client().get("/login/").text
        [source] = re.findall(r'src="(/static/js/app[^"]*)"', page)
        assert re.fullmatch(name, source) and Client().get(source).status_code == 200
