"""Static files: collected with hashes in their names, compressed, and kept by browsers for a year and more."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.test import Client, override_settings

from workers.launcher.__main__ import static_is_collected

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


def test_files_are_collected_again_when_they_have_changed(tmp_path: Path) -> None:
    assert not static_is_collected(tmp_path)
    manifest = tmp_path / "static" / "staticfiles.json"
    manifest.parent.mkdir()
    manifest.touch()
    assert static_is_collected(tmp_path)
    os.utime(manifest, (0, 0))
    assert not static_is_collected(tmp_path)


def test_pages_name_hashed_files_where_they_are_collected_and_plain_ones_before(
    collected: Path, settings: LazySettings, tmp_path: Path, db: None
) -> None:
    for folder, name in ((collected, r"/static/js/app\.[0-9a-f]{12}\.js"), (tmp_path, r"/static/js/app\.js")):
        settings.STATIC_ROOT = folder
        page = Client().get("/login/").text
        [source] = re.findall(r'src="(/static/js/app[^"]*)"', page)
        assert re.fullmatch(name, source) and Client().get(source).status_code == 200
