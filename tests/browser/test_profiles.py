"""A task type measured in a browser: asked for, paused and resumed, followed live to its end, and read when narrow."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import redis
from playwright.sync_api import Page, expect

from scheduler.contracts.trials import TrialOrder, TrialProgress, TrialResult, TrialSample
from tests.browser.conftest import PageOf
from tests.browser.drive import settled
from tests.browser.site import RunningSite
from workers.engine import trial_store

pytestmark = pytest.mark.browser

NODE = "bench"
# A node of its own, so that its slot is free whatever other tests run; it offers nothing any more afterwards.
_NODE = """
import django, sys; django.setup()
from dashboard.operations.services import register_node
register_node(name="bench", slots=int(sys.argv[1]))
"""


@dataclass
class Bench:
    """A node whose trials are all stable and end at once, as many as are ``allowed``; the next one waits."""

    broker: redis.Redis
    allowed: float = math.inf
    taken: list[TrialOrder] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def serve(self) -> None:
        answered = 0
        while not self.ended.is_set():
            order = trial_store.take(self.broker, NODE, wait_s=0.2)
            if order is None:
                continue
            self.taken.append(order)
            while not self.ended.wait(0.2):
                trial_store.tell(self.broker, order.id, TrialProgress("measuring"))
                if trial_store.is_cancelled(self.broker, order.id):
                    trial_store.give_up(self.broker, order.id)
                    break
                if answered < self.allowed:
                    answered += 1
                    trial_store.finish(self.broker, result_of(order))
                    break


@pytest.fixture
def bench(site: RunningSite) -> Iterator[Bench]:
    """The node, with a slot that is free."""
    site.python(_NODE, "1")
    played = Bench(redis.Redis.from_url(site.redis_url))
    thread = threading.Thread(target=played.serve)
    thread.start()
    yield played
    played.ended.set()
    thread.join()
    played.broker.close()
    site.python(_NODE, "0")


def result_of(order: TrialOrder) -> TrialResult:
    series = tuple(TrialSample(at / 2, 0.2, order.rate_per_s, 0.3, 0.1) for at in range(1, 9))
    return TrialResult(
        order.id, ok=True, threads=order.threads, rate_per_s=order.rate_per_s, achieved_per_s=order.rate_per_s, cpu=0.3,
        memory=0.1, took_s=1.0, series=series, machine={"class": "played"}, versions={"type": 1})


def measure(site: RunningSite, page: Page) -> None:
    """Ask for a type to be measured with one thread, by the form."""
    page.goto(f"{site.url}/profiles/measure?type=block_average")
    page.get_by_label("Slot").select_option(f"{NODE}/0")
    page.get_by_text("Bounds and trials").click()
    page.get_by_label("Threads at most").fill("1")
    page.get_by_label("Lowest rate, events/s").fill("10")
    page.get_by_label("Highest rate, events/s").fill("20")
    page.get_by_role("button", name="Measure", exact=True).click()


def test_a_type_is_measured_with_a_rest_followed_and_read(site: RunningSite, bench: Bench, page_of: PageOf) -> None:
    bench.allowed = 1
    page = page_of(width=400, at=None)
    measure(site, page)
    progress, state = page.locator("#progress"), page.locator("#head .chip").first
    expect(progress).to_contain_text("Trial 2:")
    page.get_by_role("button", name="Pause").click()
    expect(state).to_have_text("paused")
    expect(progress.locator("[data-note='paused']")).to_be_visible()
    expect(progress).not_to_contain_text("Trial 2:")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    bench.allowed = math.inf
    page.get_by_role("button", name="Resume").click()
    # Without reloading: the page follows the sweep.
    expect(page.get_by_role("link", name="The profile")).to_be_visible()
    expect(state).to_have_text("done")
    first, stopped, again = ((order.threads, order.rate_per_s) for order in bench.taken[:3])
    assert first != stopped == again, "what was measured is kept, and only what was under way is measured again"
    assert len({order.id for order in bench.taken}) == len(bench.taken)
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


@pytest.mark.long  # tests/profiles/test_pages.py has the list, the test above a page that follows
def test_what_is_being_measured_is_listed_as_it_comes_and_goes(
    site: RunningSite, bench: Bench, page_of: PageOf
) -> None:
    bench.allowed = 0
    listed = page_of("vera", at=None)
    listed.clock.install()
    listed.goto(f"{site.url}/profiles/")
    settled(listed)
    under_way, past = (
        listed.locator("section", has=listed.locator(title)) for title in ("#measuring-title", "#past-title"))
    sweep = under_way.get_by_role("link")
    expect(sweep).to_have_count(0)
    page = page_of(at=None)
    measure(site, page)
    expect(page.locator("#progress")).to_contain_text("Trial 1:")
    listed.clock.fast_forward(10_000)
    expect(sweep).to_have_text("block_average")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel it").click()
    expect(page.locator("#head .chip").first).to_have_text("cancelled")
    listed.clock.fast_forward(10_000)
    expect(sweep).to_have_count(0)
    expect(past).to_contain_text("cancelled")


_IMPORTED = """
import django; django.setup()
from dashboard.profiles.services.importing import import_profiles
from dashboard.teams.models import User
text = "task,threads,peak_rate_tuples_s,cpu_pct,mem_pct\\nbehind,1,10,20,5\\nbehind,2,18,40,6\\n"
[record] = import_profiles(actor=User.objects.get(username="carla"), text=text)
print(record.pk)
"""
_BEHIND = """(() => {
    let hidden = true;
    Object.defineProperty(document, "hidden", { get: () => hidden });
    window.comeToFront = () => { hidden = false; document.dispatchEvent(new Event("visibilitychange")); };
})()"""


@pytest.mark.long  # the short run takes the main ways of a page
def test_a_profile_that_is_opened_behind_is_drawn_when_it_comes_to_the_front(
    site: RunningSite, page_of: PageOf
) -> None:
    page = page_of(at=None)
    page.add_init_script(_BEHIND)
    page.goto(f"{site.url}/profiles/{site.python(_IMPORTED).strip()}/")
    settled(page)
    expect(page.locator("[data-figure='rate'] .plot-empty")).to_have_text("Drawing…")
    page.evaluate("window.comeToFront()")
    for figure in ("rate", "cpu", "memory"):
        expect(page.locator(f"[data-figure='{figure}'][data-drawn] .plot svg").first).to_be_visible()


def assert_fits(page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
