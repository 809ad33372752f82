"""The slider of what latency costs: figures follow it, what a field holds beyond a time stays, what is chosen is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PageOf
from tests.browser.drive import settled

pytestmark = pytest.mark.browser


Offers = list[dict[str, Any]]


@pytest.fixture
def opened(merged: Mapping[str, str], page_of: PageOf) -> tuple[Page, Offers]:
    """The page of a dataflow that runs, and the offers that it has: a moment later they may be others."""
    page = page_of(at=None)
    with page.expect_response(lambda response: "/latency/prices" in response.url) as prices:
        page.goto(merged["etl"] + "#performance")
    settled(page)
    expect(page.locator("[data-offer='words']")).not_to_have_text("–")
    return page, prices.value.json()["offers"]


def slide(page: Page, *keys: str) -> int:
    """Press keys on the slider; at which offer it stands then."""
    slider = page.locator("#latency-slider")
    for key in keys:
        slider.press(key)
    return int(slider.input_value())


def rounded(amount: float, step: str) -> str:
    """An amount to whole steps, halves of what is written rounded up as a browser does: 0.6735 is 0.674."""
    return f"{Decimal(repr(amount)).quantize(Decimal(step), ROUND_HALF_UP):f}"


def in_money(amount: float) -> str:
    """With two to five digits behind the point, as the page writes it."""
    whole, digits = rounded(amount, "0.00001").split(".")
    return f"{whole}.{digits.rstrip('0').ljust(2, '0')}"


def in_cores(amount: float) -> str:
    return f"{rounded(amount, '0.001')} cores"


def expect_offer(page: Page, offer: Mapping[str, Any]) -> None:
    expect(page.locator("[data-offer='words']")).to_have_text(offer["words"])
    expect(page.locator("[data-offer='cores']")).to_have_text(in_cores(offer["cores"]))
    expect(page.locator("[data-offer='pays']")).to_contain_text(f"{in_money(offer['pays_per_hour'])} ")
    expect(page.locator("[data-offer='pays']")).to_contain_text(f"({in_cores(offer['pays_cores'])})")
    expect(page.locator("[data-offer='unmet']")).to_be_visible(visible=not offer["met"])
    expect(page.locator("#latency-slider")).to_have_attribute("aria-valuetext", offer["words"])


def test_cores_and_price_follow_the_slider_by_keys_and_by_mouse(opened: tuple[Page, Offers]) -> None:
    page, offers = opened
    field = page.locator("#latency-choice")
    assert slide(page, "Home") == 0
    expect_offer(page, offers[0])
    expect(field).to_have_value(offers[0]["words"])
    assert slide(page, "End") == len(offers) - 1
    expect_offer(page, offers[-1])
    assert offers[-1]["words"] == "none"
    assert slide(page, "ArrowLeft", "ArrowLeft") == len(offers) - 3
    expect_offer(page, offers[-3])
    expect(field).to_have_value(offers[-3]["words"])
    assert offers[-1]["cores"] <= offers[-3]["cores"], "who waits for longer takes no more"

    slider = page.locator("#latency-slider")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    middle_y, at = box["y"] + box["height"] / 2, (len(offers) - 3) / (len(offers) - 1)
    page.mouse.move(box["x"] + at * box["width"], middle_y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, middle_y, steps=5)
    page.mouse.up()
    dragged = int(slider.input_value())
    assert 0 < dragged < len(offers) - 3
    expect_offer(page, offers[dragged])
    expect(field).to_have_value(offers[dragged]["words"])


def test_what_the_field_holds_beyond_a_time_is_not_overwritten(opened: tuple[Page, Offers]) -> None:
    page, offers = opened
    field = page.locator("#latency-choice")
    for written in (
            '[{"limit": 2.0, "percentile": 99}, 5]', "{limit: 2 s, percentile: 99}", '{"limit": 1, "along": ["fill"]}'):
        field.fill(written)
        expect_offer(page, offers[slide(page, "Home", "ArrowRight")])
        expect(field).to_have_value(written)

        field.fill("7 s")
        expect(field).to_have_value("7 s")
        chosen = slide(page, "ArrowRight")
        expect(field).to_have_value(offers[chosen]["words"])


@pytest.mark.long  # tests/dashboard/test_choosing_limits.py has what the form sends, the tests above what it holds
def test_the_limit_that_was_chosen_is_sent_and_the_documents_comes_back(opened: tuple[Page, Offers]) -> None:
    page, offers = opened
    slide(page, "End")
    offer = offers[slide(page, *["ArrowLeft"] * 3)]
    field, card = page.locator("#latency-choice"), page.locator("#latency")
    before = field.get_attribute("value")
    assert offer["words"] not in ("none", before)

    card.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("[data-limit='0'] strong")).to_have_text(f"mean of at most {offer['words']}.")
    settled(page)
    expect(field).to_have_value(offer["words"])
    expect(page.locator("[data-offer='words']")).to_have_text(offer["words"])
    expect(card).to_contain_text("chosen on this page")

    card.get_by_role("button", name="As its document says").click()
    expect(field).to_have_value(str(before))
