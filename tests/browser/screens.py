"""Screenshots of every page in both themes and at both widths.

``python -m tests.browser.screens URL --user NAME --password WORD --out DIR``; the password may also stand in
``WEIR_PASSWORD``.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.browser.drive import browser, context, drawn, log_in, settled

WIDTHS = {1280: 860, 400: 800}
PAGES = {
    "estate": "/", "dataflows": "/dataflows/", "dataflow-new": "/dataflows/new", "proposals": "/proposals/",
    "alerts": "/alerts/", "alert-rules": "/alerts/rules", "notifications": "/alerts/notifications",
    "bills": "/bills/", "slots": "/estate/slots", "deployment": "/estate/deployment/", "controllers": "/controllers/",
    "controller": "/controllers/defragmentation/", "dry-run": "/controllers/defragmentation/dry-run?team=city",
    "estate-time": "/estate/time?range=1h", "problems": "/problems/", "slot": "/estate/slots/n1/0",
    "node": "/estate/nodes/n1", "process-log": "/estate/nodes/n1/log/0",
    "wall": "/wall/", "pacing": "/estate/pacing", "tenancy": "/estate/tenancy",
    "task-types": "/task-types/", "audit": "/audit/", "teams": "/teams/", "people": "/people/", "help": "/help/start",
    "help-documents": "/help/documents", "help-words": "/help/words", "password": "/password/",
    "own-data": "/dataflows/own-data/?type=kafka", "rules": "/teams/city/rules", "profiles": "/profiles/",
    "measure": "/profiles/measure?type=senml_parse", "graph": "/estate/graph", "overlap": "/estate/overlap",
    "queries": "/fragmentation/", "not-found": "/no-such-page",
}
LISTED = {"dataflow": ("/dataflows/", "a.row-link"), "proposal": ("/proposals/", "a.row-link")}
LIVE_MS = 2500  # long enough for a snapshot, a delta and a drawn graph


def main() -> None:
    """Take them all, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", default=os.environ.get("WEIR_PASSWORD", ""))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", help="names of pages")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for theme in ("light", "dark"):
            for width, height in WIDTHS.items():
                _take(chromium, given, theme, width, height)


def _take(chromium: Browser, given: argparse.Namespace, theme: str, width: int, height: int) -> None:
    within = context(chromium, viewport={"width": width, "height": height}, color_scheme=theme)
    url = given.url.rstrip("/")
    page = within.new_page()
    page.goto(f"{url}/login/")
    _shoot(page, given, f"login-{theme}-{width}")
    page.close()
    page = log_in(within, url, given.user, given.password)
    for name, path in {**PAGES, **_listed(page, url)}.items():
        if given.only and not any(name.startswith(only) for only in given.only):
            continue
        page.goto("about:blank")  # else an address that differs by its tab alone is not loaded
        page.goto(f"{url}{path}")
        if name != "not-found":
            settled(page)
            drawn(page)
            page.wait_for_timeout(LIVE_MS if page.locator("body[data-live]").count() else 300)
        _shoot(page, given, f"{name}-{theme}-{width}")
    within.close()


def _listed(page: Page, url: str) -> dict[str, str]:
    """The first few of each list, by their addresses."""
    addresses = {}
    for name, (path, selector) in LISTED.items():
        page.goto(f"{url}{path}")
        for number, link in enumerate(page.locator(selector).all()[:4]):
            addresses[f"{name}-{number}"] = link.get_attribute("href")
    if "dataflow-0" in addresses:
        addresses |= {"log": f"{addresses['dataflow-0']}log", "savepoints": f"{addresses['dataflow-0']}savepoints",
            "schedule": f"{addresses['dataflow-0']}schedule",
            "outcome": f"{addresses['dataflow-0']}schedule/outcome"}
        addresses |= {f"dataflow-0-{tab}": f"{addresses['dataflow-0']}#{tab}"
                      for tab in ("data", "performance", "costs", "versions", "settings")}
    return addresses


def _shoot(page: Page, given: argparse.Namespace, name: str) -> None:
    page.screenshot(path=given.out / f"{name}.png", full_page=True)
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if overflow > 0:
        print(f"{name}: wider than the screen by {overflow} px")


if __name__ == "__main__":
    main()
