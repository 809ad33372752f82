"""A task type measured in a browser: asked for, followed live to its end, and read on a narrow screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import redis
from playwright.sync_api import expect

from tests.browser.conftest import PageOf
from tests.browser.drive import settled
from tests.browser.site import RunningSite
from workers import trials

pytestmark = pytest.mark.browser

NODE = "bench"
# A node of its own, so that its slot is free whatever other tests run; it offers nothing any more afterwards.
_NODE = """
import django, sys; django.setup()
from dashboard.operations.services import register_node
register_node(name="bench", slots=int(sys.argv[1]))
"""


@pytest.fixture
def bench(site: RunningSite) -> Iterator[None]:
    """A node whose trials are all stable and end at once."""
    site.python(_NODE, "1")
    ended, broker = threading.Event(), redis.Redis.from_url(site.redis_url)

    def serve() -> None:
        while not ended.is_set():
            order = trials.take(broker, NODE, wait_s=0.2)
            if order is not None:
                trials.tell(broker, order.id, trials.Progress("measuring"))
                time.sleep(0.2)
                trials.finish(broker, result_of(order))

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    ended.set()
    thread.join()
    broker.close()
    site.python(_NODE, "0")


def result_of(order: trials.TrialOrder) -> trials.TrialResult:
    series = tuple(trials.Sample(at / 2, 0.2, order.rate_per_s, 0.3, 0.1) for at in range(1, 9))
    return trials.TrialResult(
        order.id, ok=True, threads=order.threads, rate_per_s=order.rate_per_s, achieved_per_s=order.rate_per_s, cpu=0.3,
        memory=0.1, took_s=1.0, series=series, machine={"class": "played"}, versions={"type": 1})


def test_a_type_is_measured_followed_and_read(site: RunningSite, bench: None, page_of: PageOf) -> None:
    page = page_of(width=400)
    page.goto(f"{site.url}/profiles/measure?type=block_average")
    page.get_by_label("Slot").select_option(f"{NODE}/0")
    page.get_by_text("Bounds and trials").click()
    page.get_by_label("Threads at most").fill("1")
    page.get_by_label("Lowest rate, events/s").fill("10")
    page.get_by_label("Highest rate, events/s").fill("20")
    page.get_by_role("button", name="Measure", exact=True).click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    # Without reloading: the page follows the sweep.
    expect(page.get_by_role("link", name="The profile")).to_be_visible(timeout=20_000)
    expect(page.locator("[data-figure='trials'][data-drawn] .plot svg").first).to_be_visible()
    assert_fits(page)
    page.get_by_role("link", name="Trial 1 with its raw series").click()
    expect(page.locator("[data-figure='latency'][data-drawn] .plot svg").first).to_be_visible()
    assert_fits(page)
    page.go_back()
    page.get_by_role("link", name="The profile").click()
    for figure in ("rate", "cpu", "memory"):
        expect(page.locator(f"[data-figure='{figure}'][data-drawn] .plot svg").first).to_be_visible()
    expect(page.get_by_text("20/s with 1 thread")).to_be_visible()
    settled(page)
    assert_fits(page)


def assert_fits(page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
