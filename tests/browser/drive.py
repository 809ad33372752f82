"""Driving the site as a person does: a browser, log-in, and what every page must not do (break the policy, fail)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

# The shell has no window to keep up: a page costs a fifth of the CPU that it costs in the whole browser.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]
WAIT_S = 90.0


@contextmanager
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield chromium
        finally:
            chromium.close()


def context(browser: Browser, **options: Any) -> BrowserContext:
    """A context that waits for a busy machine: what is slow is not wrong."""
    opened = browser.new_context(**options)
    opened.set_default_timeout(WAIT_S * 1000)
    return opened


def has_chromium() -> bool:
    """Whether the browser is installed."""
    return Path(CHROMIUM).exists()


def log_in(context: BrowserContext, url: str, user: str, password: str) -> Page:
    """A page of this context, logged in, at the estate."""
    page = context.new_page()
    page.goto(f"{url}/login/")
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{url}/")
    return page


def watch(page: Page) -> list[str]:
    """Collects what a page must not do: errors of scripts, refused styles or scripts, failed requests."""
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    return problems


def until(ready: Callable[[], Any], what: str, *, wait_s: float = WAIT_S) -> Any:
    """Wait for something outside the page's own means: the policy forbids what ``wait_for_function`` evaluates."""
    deadline = time.monotonic() + wait_s
    while True:
        value = ready()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {wait_s:g} s: {what}"
        time.sleep(0.1)


def settled(page: Page) -> None:
    """Wait until the page's scripts have started."""
    page.locator("html[data-ready]").wait_for(state="attached")


def drawn(page: Page) -> None:
    """Wait until the page's graph, where it has one, is drawn."""
    if page.locator("[data-graph]").count():
        page.locator(".graph-stage[data-drawn]").wait_for(state="attached")


def expected(text: str) -> bool:
    """What a browser logs of its own accord where a test takes the network or the server away, or is refused."""
    return text.startswith(("Failed to load resource", "WebSocket connection to"))
