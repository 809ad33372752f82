"""Help pages are the project's documents: linked among each other, and harmless whatever a document says."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from dashboard.pages.markdown import render, site_address
from dashboard.pages.views.guides import DOCS, GUIDES, REFERENCES
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound

ADDRESSES = {PurePosixPath("guide/bills.md"): "/help/bills", PurePosixPath("bills.md"): "/help/bills-reference"}


@pytest.mark.parametrize(("target", "address"), [
    ("#limits", "#limits"), ("/estate/slots", "/estate/slots"), ("https://x.example/a", "https://x.example/a"),
    ("../bills.md", "/help/bills-reference"), ("../bills.md#money", "/help/bills-reference#money"),
    ("bills.md", "/help/bills"), ("../decisions/0001.md", None), ("../../scheduler/planning.py", None),
])
def test_links_lead_to_the_sites_own_addresses(target: str, address: str | None) -> None:
    assert site_address(target, document=PurePosixPath("guide/start.md"), addresses=ADDRESSES) == address


@pytest.mark.parametrize("text", [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))",
    "![a](javascript:alert(1))",
    "a <b onclick='x'>b</b>", "[a](data:text/html,x)", "<!-- <style>*{}</style> -->", "```\n</code><script>\n```",
])
def test_nothing_of_a_document_becomes_markup_of_its_own(text: str) -> None:
    markup = Markup(render(f"# Title\n\n{text}\n", address_of=lambda target: target))
    assert markup.with_style_or_behaviour() == [] and not markup.every("script", "img", "style", "b")
    assert not [link for link in markup.values("href") if link.startswith(("javascript:", "data:"))]


def test_headings_have_ids_and_links_that_lead_nowhere_stay_text() -> None:
    markup = Markup(render(
        "# T\n\n## What is it?\n\n## What is it?\n\nSee [there](gone.md) or *[here](/a)*.\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        address_of=lambda target: target if target.startswith("/") else None))
    assert [heading.attributes["id"] for heading in markup.every("h2")] == ["what-is-it", "what-is-it-1"]
    assert markup.values("href") == ["/a"] and "See there or here." in {p.text for p in markup.every("p")}
    assert [cell.text for cell in markup.every("td")] == ["1", "2"]


def test_every_document_is_shown_and_its_anchors_are_there(client_of: ClientOf) -> None:
    client = client_of("vera")
    pages = {}
    for guide in (*GUIDES, *REFERENCES):
        address = f"/help/{guide.slug}"
        response = client.get(address)
        assert_sound(response, address)
        pages[address] = Markup(response.text)
        assert len(pages[address].one("class", "prose").text) > 200
    for address, page in pages.items():
        for link in page.one("class", "prose").values("href"):
            path, _, anchor = link.partition("#")
            if anchor and (not path or path in pages):
                assert pages[path or address].having("id", anchor), f"{address} links to {link}"


def test_guides_link_to_pages_that_are_there(client_of: ClientOf) -> None:
    client = client_of("root")
    for guide in GUIDES:
        for link in Markup(client.get(f"/help/{guide.slug}").text).one("class", "prose").values("href"):
            assert client.get(link.partition("#")[0]).status_code == 200, link


def test_every_guide_of_the_folder_is_listed() -> None:
    assert {path.name for path in (DOCS / "guide").glob("*.md")} == {guide.path.name for guide in GUIDES}
