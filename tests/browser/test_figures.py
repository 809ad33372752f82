"""Pictures of the figures that a measurement's page has."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.benches.migration.page import page
from tests.benches.test_migration import document
from tests.browser.figures import take

pytestmark = pytest.mark.browser


@pytest.mark.long  # for the documentation, not for users
def test_figures_of_one_kind_become_one_picture(browser: Browser, tmp_path: Path) -> None:
    written, picture = tmp_path / "migration.html", tmp_path / "degradation.png"
    written.write_text(page(document(["nonstop", "handover"], [1, 16])))
    assert take(browser, written, title="Degradation", out=picture) == 2
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.unlink()
    assert take(browser, written, title="Nothing", out=picture) == 0
    assert not picture.exists()
