"""Bills in a browser: the cost over time is drawn under the strict policy, and a phone shows what matters."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PageOf
from tests.browser.drive import settled
from tests.browser.site import RunningSite

pytestmark = pytest.mark.browser

# A dataflow that ran for some hours and is gone: nothing of it is in the estate that other tests look at.
_CHARGED = """
import django; django.setup()
from datetime import timedelta
from django.utils import timezone
from dashboard.bills.models import NeedRow, UsageHour
from dashboard.catalog.models import DataflowRecord
from dashboard.teams.models import Team, User
record = DataflowRecord.objects.create(
    team=Team.objects.get(slug="city"), author=User.objects.get(username="carla"), name="Long gone",
    visibility="shared", status="removed", tasks=1)
hour = timezone.now().replace(minute=0, second=0, microsecond=0)
NeedRow.objects.create(
    dataflow=record, task_id="average", type="block_average", fingerprint="t-gone", since=hour - timedelta(hours=9),
    until=hour)
for ago in range(1, 9):
    UsageHour.objects.create(
        hour=hour - timedelta(hours=ago), dataflow=record, fingerprint="t-gone", cpu_us=36_000_000 * ago,
        memory_mb_s=90_000, traffic_bytes=5_000_000, cost_nanos=400_000 * ago, alone_nanos=1_200_000 * ago,
        needed_ms=3_600_000, user_ms=3 * 3_600_000)
print(record.pk)
"""


@pytest.fixture(scope="module")
def charged(site: RunningSite) -> str:
    """The id of a dataflow that has a bill."""
    return site.python(_CHARGED).strip()


def test_cost_is_drawn_and_a_bill_fits_the_screen(site: RunningSite, charged: str, page_of: PageOf) -> None:
    page = page_of(at=None)
    for address, width in (("/bills/", 1280), (f"/bills/{charged}/", 400)):
        page.set_viewport_size({"width": width, "height": 860})
        page.goto(f"{site.url}{address}")
        settled(page)
        expect(page.locator("[data-figure='cost'][data-drawn] .plot svg").first).to_be_visible()
        expect(page.get_by_text("67%").first).to_be_visible()
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, address
    expect(page.get_by_text("1 of 3")).to_be_visible()
    expect(page.get_by_text("no longer needed")).to_be_visible()


# Texts of a figure may be values of events, or names that another team has given.
_HOSTILE = """async () => {
  const { Plot } = await import("/static/js/plots.js");
  const link = "<a href='https://evil.example.org'>log in</a> &lt; 5 < x > 3";
  const plot = new Plot(document.querySelector("[data-figure='cost']"));
  await plot.draw({
    data: [{ type: "bar", name: link, x: [link, "b"], y: [1, 2] }],
    layout: { showlegend: true, shapes: [{ type: "line", x0: 0, x1: 1, y0: 1, y1: 1, label: { text: link } }] },
  });
  return [plot.element.querySelectorAll("a").length, plot.element.textContent.split(link).length - 1];
}"""


def test_a_text_that_looks_like_a_link_is_drawn_as_text(site: RunningSite, charged: str, page_of: PageOf) -> None:
    page = page_of(at=None)
    page.goto(f"{site.url}/bills/")
    settled(page)
    expect(page.locator("[data-figure='cost'][data-drawn] .plot svg").first).to_be_visible()

    links, texts = page.evaluate(_HOSTILE)

    assert links == 0
    assert texts >= 2, "in the legend, and at its bar or line"
